//! Conversations that are made up, in languages that are written in different ways: facts among
//! chatter and distractors, and questions that say them otherwise.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::memory::Append;
use memory_prompt::recall::Candidate;
use memory_prompt::report::Origin;
use memory_prompt::token::Estimate;
use memory_prompt::{ChatMemory, DefaultChatMemory, MemoryPrompt, Message, Prompt, Recall, Result};

/// A conversation with questions about it.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) name: &'static str,
    pub(crate) messages: Vec<(SystemTime, Message)>,
    pub(crate) questions: Vec<Question>,
}

/// A question, with what is said right before it.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) lead: Vec<Message>,
    pub(crate) text: String,
    /// The positions of the messages that answer it.
    pub(crate) evidence: Vec<u64>,
    pub(crate) kind: Cow<'static, str>,
    /// What a model found for it, as the file says.
    pub(crate) found: Vec<Candidate>,
}

/// A language: `{p}` is a person, `{t}` a thing, `{l}` a place and `{d}` a number.
struct Language {
    name: &'static str,
    people: [&'static str; 8],
    /// As the facts say them, and as the questions do.
    things: [(&'static str, &'static str); 8],
    places: [&'static str; 8],
    fact: &'static str,
    question: &'static str,
    answer: &'static str,
    reason: &'static str,
    why: &'static str,
    distractors: [&'static str; 3],
    chatter: [&'static str; 6],
}

/// Returns a conversation of each language, with this many facts, at most 64.
pub(crate) fn all(facts: usize) -> Vec<Conversation> {
    LANGUAGES.iter().map(|language| language.conversation(facts.min(64))).collect()
}

/// Returns whether all evidence is in the prompt: of the tail alone, with recall, and with recall
/// where a passage of a message counts for it.
pub(crate) fn ask(
    conversation: &Conversation,
    question: &Question,
    budget: usize,
) -> Result<[bool; 3]> {
    let mut prompt = prompt(conversation, question, budget)?;
    let tail = has_all(&prompt.preview()?, question, false);
    // Half of the budget is kept for recall, and what the tail leaves of its half.
    prompt.set_recall(Recall::words().tokens(budget));
    let built = prompt.preview()?;
    Ok([tail, has_all(&built, question, false), has_all(&built, question, true)])
}

/// Returns a prompt of so many tokens, to which the question was put.
pub(crate) fn prompt(
    conversation: &Conversation,
    of: &Question,
    budget: usize,
) -> Result<MemoryPrompt> {
    let asked = of.lead.iter().cloned().chain([Message::user(&*of.text)]);
    let now = conversation.messages.last().map_or(UNIX_EPOCH, |(at, _)| *at);
    let all = conversation.messages.iter().cloned().chain(asked.map(|message| (now, message)));
    let (times, messages): (Vec<_>, Vec<_>) = all.unzip();
    let memory = DefaultChatMemory::new();
    memory.append_with(&mut Append::new(messages).with_times(times))?;
    Ok(MemoryPrompt::new(memory).max_tokens(budget, Estimate))
}

/// Returns whether all evidence is in the prompt: whole, or also in part.
pub(crate) fn has_all(prompt: &Prompt, question: &Question, in_part: bool) -> bool {
    let sent =
        |position| prompt.with_origins().any(|(origin, _)| origin == Origin::History(position));
    let recalled = &prompt.report().recalled;
    let quoted =
        |position| recalled.iter().any(|it| it.position == position && (it.whole || in_part));
    question.evidence.iter().all(|position| quoted(*position) || sent(*position))
}

/// Returns notes of many topics in no order, each of which stands alone: nothing is gained by what
/// stands beside one.
pub(crate) fn strewn(notes: usize) -> Conversation {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |most: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random >> 11).unwrap_or_default() % most
    };
    let (mut talk, mut asked) = (Talk::default(), Vec::<(String, u64)>::new());
    for _ in 0..notes {
        let topic = &TOPICS[next(TOPICS.len())];
        let (thing, person, place) = (next(6), next(8), next(8));
        let number = next(90) + 3;
        let fill = |text: &str| {
            let text = text.replace("{t}", topic.things[thing]).replace("{d}", &number.to_string());
            let text = text.replace("{p}", LANGUAGES[0].people[person]);
            text.replace("{l}", LANGUAGES[0].places[place])
        };
        let position = talk.say(fill(topic.note));
        asked.push((fill(topic.question), position));
    }
    let is_only = |text: &str| asked.iter().filter(|(other, _)| other == text).count() == 1;
    let only = asked.iter().filter(|(text, _)| is_only(text)).take(200);
    let questions = only.map(|(text, position)| {
        let (text, evidence) = (text.clone(), vec![*position]);
        Question { lead: Vec::new(), text, evidence, kind: "strewn".into(), found: Vec::new() }
    });
    Conversation { name: "Notes", questions: questions.collect(), messages: talk.0 }
}

/// A topic of notes: its things, a note, and a question about it.
struct Topic {
    things: [&'static str; 6],
    note: &'static str,
    question: &'static str,
}

const TOPICS: &[Topic] = &[
    Topic {
        things: ["tomatoes", "beans", "roses", "leeks", "tulips", "cucumbers"],
        note: "The {t} that {p} planted by the wall in {l} want {d} litres of water a week.",
        question: "How much water do the {t} of {p} in {l} need?",
    },
    Topic {
        things: ["sonata", "waltz", "quartet", "hymn", "overture", "ballad"],
        note: "{p} plays the {t} at {d} beats a minute since the concert in {l}.",
        question: "At which tempo did {p} play the {t} in {l}?",
    },
    Topic {
        things: ["invoice", "contract", "receipt", "permit", "licence", "warranty"],
        note: "In folder {d} lies the {t} for the flat in {l}, signed by {p}.",
        question: "Where is the {t} that {p} signed for {l}?",
    },
    Topic {
        things: ["soup", "stew", "cake", "omelette", "risotto", "bread"],
        note: "For the {t} from {l} one takes {d} grams of butter, says {p}.",
        question: "How much butter goes into the {t} of {p} from {l}?",
    },
    Topic {
        things: ["server", "router", "printer", "scanner", "backup", "firewall"],
        note: "{p} moved the {t} in {l} to port {d}, and it answers again.",
        question: "Which port has the {t} in {l} since {p} moved it?",
    },
    Topic {
        things: ["knee", "shoulder", "tooth", "wrist", "ankle", "elbow"],
        note: "The doctor in {l} looks at the {t} of {p} again in {d} days.",
        question: "When does {p} show the {t} to the doctor in {l}?",
    },
    Topic {
        things: ["kayak", "tent", "bicycle", "canoe", "trailer", "sledge"],
        note: "{p} lends us the {t} for {d} euros, but it stands in {l}.",
        question: "What does {p} ask for the {t} in {l}?",
    },
    Topic {
        things: ["novel", "atlas", "diary", "manual", "dictionary", "comic"],
        note: "Page {d} of the {t} is torn; {p} bought it second-hand in {l}.",
        question: "Which page is missing in the {t} that {p} has from {l}?",
    },
];

impl Language {
    fn conversation(&self, facts: usize) -> Conversation {
        let mut talk = Talk::default();
        let mut questions = Vec::new();
        for i in 0..facts {
            let say = |text: &str, thing: &str| {
                let text = text.replace("{p}", self.people[i % 8]).replace("{t}", thing);
                text.replace("{l}", self.places[(i * 5 + i / 8) % 8])
            };
            let (told, asked) = self.things[(i + i / 8) % 8];
            self.chat(&mut talk, 3);
            let fact = talk.say(say(self.fact, told));
            self.chat(&mut talk, 1);
            let reason = talk.say(say(self.reason, told));
            for distractor in self.distractors {
                self.chat(&mut talk, 1);
                talk.say(say(distractor, asked));
            }
            let question = say(self.question, asked);
            questions.push(if i % 3 == 2 {
                let lead = vec![Message::user(question), Message::ai(say(self.answer, asked))];
                let text = self.why.to_owned();
                Question {
                    lead,
                    text,
                    evidence: vec![reason],
                    kind: "follow-up".into(),
                    found: Vec::new(),
                }
            } else {
                let kind = "paraphrase".into();
                Question {
                    lead: Vec::new(),
                    text: question,
                    evidence: vec![fact],
                    kind,
                    found: Vec::new(),
                }
            });
        }
        self.chat(&mut talk, 120);
        Conversation { name: self.name, messages: talk.0, questions }
    }

    fn chat(&self, talk: &mut Talk, n: usize) {
        for _ in 0..n {
            let i = talk.0.len();
            let text = self.chatter[i * 7 % 6].replace("{d}", &(i * 31 % 97 + 2).to_string());
            talk.say(text);
        }
    }
}

/// A conversation in the making: turns, a few hours apart.
#[derive(Default)]
struct Talk(Vec<(SystemTime, Message)>);

impl Talk {
    fn say(&mut self, text: String) -> u64 {
        let position = self.0.len() as u64;
        let at = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + position * 10_000);
        let speaks =
            if position.is_multiple_of(2) { Message::user(text) } else { Message::ai(text) };
        self.0.push((at, speaks));
        position
    }
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "English",
        people: ["Anna", "Boris", "Clara", "David", "Emma", "Felix", "Greta", "Henry"],
        things: [
            ("bicycle", "bicycles"),
            ("antique lamp", "lamps"),
            ("violin", "violins"),
            ("pair of boots", "boots"),
            ("teapot", "teapots"),
            ("puppy", "puppies"),
            ("carpet", "carpets"),
            ("telescope", "telescopes"),
        ],
        places: ["Oslo", "Lisbon", "Vienna", "Dublin", "Athens", "Prague", "Madrid", "Warsaw"],
        fact: "{p} decided on a {t} while travelling through {l}.",
        question: "In which city was {p} deciding on one of those {t}?",
        answer: "That was in {l}, {p} has told everybody of the {t}.",
        reason: "For {p} the {t} had to be, because the old one fell into a river.",
        why: "And why?",
        distractors: [
            "Nobody reaches {p} by telephone today.",
            "A shop around the corner sells {t} of every city.",
            "Which city is nicest in spring is hard to decide.",
        ],
        chatter: [
            "It rained for {d} minutes and then the sun came out again.",
            "The train was {d} minutes late this morning, as so often.",
            "We should cook something simple tonight, soup perhaps.",
            "I slept badly and drank {d} cups of coffee.",
            "The meeting was moved to room {d} and then called off.",
            "That film goes on and on, I left after {d} minutes.",
        ],
    },
    Language {
        name: "German",
        people: ["Anna", "Boris", "Clara", "David", "Emma", "Felix", "Greta", "Henrik"],
        things: [
            ("Fahrrad", "Fahrrad"),
            ("Stehlampe", "Stehlampe"),
            ("Geige", "Geige"),
            ("Wanderschuh", "Wanderschuh"),
            ("Teekanne", "Teekanne"),
            ("Welpen", "Welpen"),
            ("Teppich", "Teppich"),
            ("Fernrohr", "Fernrohr"),
        ],
        places: ["Bremen", "Lübeck", "Wien", "Köln", "Graz", "Kassel", "Basel", "Mainz"],
        fact: "Auf der Reise durch {l} hat sich {p} für eins entschieden: {t}, ganz neu.",
        question: "In welcher Stadt fand {p} das mit dem Wort {t}?",
        answer: "Das war in {l}, {p} erzählt allen davon: {t}.",
        reason: "Für {p} musste es sein ({t}), weil das alte Stück in den Fluss gefallen ist.",
        why: "Und warum?",
        distractors: [
            "Heute erreicht niemand {p} am Telefon.",
            "Im Laden um die Ecke steht {t} auf dem Schild.",
            "Welche Stadt im Frühling am schönsten ist, weiß ich nicht.",
        ],
        chatter: [
            "Es hat {d} Minuten geregnet, danach schien wieder die Sonne.",
            "Der Zug kam heute früh {d} Minuten zu spät, wie so oft.",
            "Wir sollten heute Abend etwas Einfaches kochen, vielleicht Suppe.",
            "Ich habe schlecht geschlafen und {d} Tassen Kaffee getrunken.",
            "Die Besprechung war erst in Raum {d} und fiel dann aus.",
            "Dieser Film hört nicht auf, ich bin nach {d} Minuten gegangen.",
        ],
    },
    Language {
        name: "Russian",
        people: ["Анна", "Борис", "Клара", "Давид", "Эмма", "Феликс", "Грета", "Захар"],
        things: [
            ("велосипед", "велосипеды"),
            ("лампу", "лампы"),
            ("скрипку", "скрипки"),
            ("сапоги", "сапогах"),
            ("чайник", "чайники"),
            ("щенка", "щенках"),
            ("ковёр", "ковер"),
            ("телескоп", "телескопы"),
        ],
        places: ["Казани", "Твери", "Вене", "Риге", "Минске", "Праге", "Пскове", "Туле"],
        fact: "По дороге {p} выбирает в {l} себе {t} и очень доволен этим.",
        question: "В каком городе {p} выбирал те самые {t}?",
        answer: "Это было в {l}, {p} всем рассказывает про {t}.",
        reason: "Пришлось взять {t}, говорит {p}, потому что старое упало в реку.",
        why: "А почему?",
        distractors: [
            "Сегодня {p} не отвечает на звонки.",
            "В лавке за углом продают {t} из любого города.",
            "Трудно сказать, какой город красивее весной.",
        ],
        chatter: [
            "Дождь шёл {d} минут, потом снова вышло солнце.",
            "Поезд утром опоздал на {d} минут, как часто бывает.",
            "Вечером надо приготовить что-нибудь простое, например суп.",
            "Я плохо спал и выпил {d} чашек кофе.",
            "Совещание перенесли в комнату {d}, а потом отменили.",
            "Этот фильм никак не кончается, я ушёл через {d} минут.",
        ],
    },
    Language {
        name: "Arabic",
        people: ["ليلى", "سمير", "نادية", "كريم", "هدى", "فارس", "مريم", "ياسر"],
        things: [
            ("دراجة", "الدراجة"),
            ("مصباح", "المصباح"),
            ("كمان", "الكمان"),
            ("حذاء", "الحذاء"),
            ("إبريق", "الإبريق"),
            ("جرو", "الجرو"),
            ("سجادة", "السجادة"),
            ("تلسكوب", "التلسكوب"),
        ],
        places: ["بيروت", "عمان", "القاهرة", "تونس", "الرباط", "دمشق", "مسقط", "بغداد"],
        fact: "خلال الرحلة في {l} اختيار {p} كان {t} جديد تماما.",
        question: "في أي مدينة كان الاختيار عند {p} هو {t}؟",
        answer: "كان ذلك في {l} والجميع سمع من {p} عن {t}.",
        reason: "قصة {p} مع {t} سببها أن القديم سقط في النهر.",
        why: "ولماذا؟",
        distractors: [
            "لا أحد يصل إلى {p} بالهاتف اليوم.",
            "في الدكان القريب يبيعون {t} من كل مدينة.",
            "أي مدينة أجمل في الربيع سؤال صعب.",
        ],
        chatter: [
            "هطل المطر {d} دقيقة ثم ظهرت الشمس من جديد.",
            "تأخر القطار هذا الصباح {d} دقيقة كالعادة.",
            "لنطبخ شيئا بسيطا هذا المساء، ربما حساء.",
            "نمت بشكل سيئ وشربت {d} فنجان قهوة.",
            "نقلوا الاجتماع إلى الغرفة {d} ثم ألغوه.",
            "هذا الفيلم طويل جدا وخرجت بعد {d} دقيقة.",
        ],
    },
    Language {
        name: "Chinese",
        people: ["小红", "建国", "美玲", "志强", "丽华", "文斌", "雪梅", "海涛"],
        things: [
            ("自行车", "自行车"),
            ("台灯", "台灯"),
            ("小提琴", "小提琴"),
            ("登山靴", "登山靴"),
            ("茶壶", "茶壶"),
            ("小狗", "小狗"),
            ("地毯", "地毯"),
            ("望远镜", "望远镜"),
        ],
        places: ["成都", "杭州", "西安", "青岛", "昆明", "大连", "厦门", "桂林"],
        fact: "路过{l}的时候，{p}挑了一件喜欢的东西：{t}。",
        question: "{p}的{t}是在哪座城市挑的？",
        answer: "是在{l}，{p}逢人就说那个{t}。",
        reason: "{p}非要{t}不可，因为旧的掉进河里了。",
        why: "为什么呢？",
        distractors: [
            "今天谁也打不通{p}的电话。",
            "街角的店里有卖各座城市的{t}。",
            "春天哪座城市最漂亮，很难说。",
        ],
        chatter: [
            "下了{d}分钟的雨，然后太阳又出来了。",
            "今天早上火车又晚点了{d}分钟。",
            "晚上做点简单的吧，也许煮个汤。",
            "我没睡好，喝了{d}杯咖啡。",
            "会议改到{d}号房间，后来又取消了。",
            "那部电影太长，我看了{d}分钟就走了。",
        ],
    },
    Language {
        name: "Japanese",
        people: ["健太", "美咲", "大輔", "由美", "翔太", "直子", "拓也", "恵子"],
        things: [
            ("自転車", "自転車"),
            ("ランプ", "ランプ"),
            ("バイオリン", "バイオリン"),
            ("登山靴", "登山靴"),
            ("急須", "急須"),
            ("子犬", "子犬"),
            ("絨毯", "絨毯"),
            ("望遠鏡", "望遠鏡"),
        ],
        places: ["京都", "札幌", "神戸", "長崎", "仙台", "金沢", "奈良", "広島"],
        fact: "{l}を旅していて、{p}は{t}を選びました。",
        question: "{p}が{t}を選んだのはどの町ですか？",
        answer: "{l}です。{p}はみんなに{t}の話をしています。",
        reason: "{p}に{t}が必要だったのは、古いのが川に落ちたからです。",
        why: "どうして？",
        distractors: [
            "今日は誰も{p}に電話がつながりません。",
            "角の店ではどの町の{t}も売っています。",
            "春に一番きれいな町を決めるのは難しいです。",
        ],
        chatter: [
            "雨が{d}分降って、それからまた晴れました。",
            "今朝も電車が{d}分遅れました。",
            "今夜は簡単なものを作りましょう、スープとか。",
            "よく眠れなくて、コーヒーを{d}杯飲みました。",
            "会議は{d}号室に移って、それから中止になりました。",
            "あの映画は長すぎて、{d}分で出ました。",
        ],
    },
    Language {
        name: "Korean",
        people: ["지민", "민준", "서연", "도윤", "하은", "준호", "수빈", "예준"],
        things: [
            ("자전거를", "자전거는"),
            ("램프를", "램프는"),
            ("바이올린을", "바이올린은"),
            ("등산화를", "등산화는"),
            ("찻주전자를", "찻주전자는"),
            ("강아지를", "강아지는"),
            ("양탄자를", "양탄자는"),
            ("망원경을", "망원경은"),
        ],
        places: ["부산", "대구", "광주", "전주", "강릉", "제주", "수원", "경주"],
        fact: "{l}에 여행을 가서 {p} 씨가 새 {t} 골랐어요.",
        question: "{p} 씨의 {t} 어느 도시에서 골랐어요?",
        answer: "{l}에서요. 그 {t} 모두가 {p} 씨한테 들었어요.",
        reason: "{p} 씨는 {t} 꼭 사야 했어요. 예전 것이 강에 빠졌거든요.",
        why: "왜요?",
        distractors: [
            "오늘은 아무도 {p} 씨와 통화가 안 돼요.",
            "모퉁이 가게에 온갖 도시의 {t} 있어요.",
            "봄에 어느 도시가 제일 예쁜지 말하기 어려워요.",
        ],
        chatter: [
            "비가 {d}분 동안 내리다가 다시 해가 났어요.",
            "오늘 아침에도 기차가 {d}분 늦었어요.",
            "저녁에는 간단하게 국이나 끓여 먹어요.",
            "잠을 못 자서 커피를 {d}잔 마셨어요.",
            "회의가 {d}호실로 바뀌더니 결국 취소됐어요.",
            "그 영화는 너무 길어서 {d}분 만에 나왔어요.",
        ],
    },
    Language {
        name: "Turkish",
        people: ["Ayşe", "Burak", "Ceren", "Deniz", "Elif", "Fatih", "Gül", "Hakan"],
        things: [
            ("bisikleti", "bisikletler"),
            ("lambayı", "lambalar"),
            ("kemanı", "kemanlar"),
            ("çizmeleri", "çizmelerden"),
            ("çaydanlığı", "çaydanlıklar"),
            ("köpeği", "köpekler"),
            ("halıyı", "halılar"),
            ("teleskobu", "teleskoplar"),
        ],
        places: ["Ankara", "İzmir", "Bursa", "Konya", "Trabzon", "Adana", "Mardin", "Sinop"],
        fact: "{l} yolunda {p} sonunda yeni {t} seçti ve çok sevindi.",
        question: "O {t} arasından {p} hangi şehirde seçmişti?",
        answer: "Bu {l} şehrindeydi, {t} hakkında {p} herkese anlatıyor.",
        reason: "Eskisi nehre düştüğü için {p} yeni {t} almak zorundaydı.",
        why: "Peki neden?",
        distractors: [
            "Bugün kimse telefonda {p} ile konuşamıyor.",
            "Köşedeki dükkânda her şehirden {t} satılıyor.",
            "Baharda hangi şehrin en güzel olduğunu söylemek zor.",
        ],
        chatter: [
            "Yağmur {d} dakika yağdı, sonra güneş yine çıktı.",
            "Tren bu sabah da {d} dakika gecikti.",
            "Akşama basit bir şey pişirelim, belki çorba.",
            "Kötü uyudum ve {d} fincan kahve içtim.",
            "Toplantı {d} numaralı odaya alındı, sonra iptal edildi.",
            "O film çok uzundu, {d} dakika sonra çıktım.",
        ],
    },
];
