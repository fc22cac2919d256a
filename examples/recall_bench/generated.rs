//! Conversations that are made up, in languages that are written in different ways: facts among
//! chatter and distractors, and questions that say them otherwise.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::memory::Append;
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
    pub(crate) kind: &'static str,
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

/// Returns whether all evidence is in the prompt: of the tail alone, and with recall.
pub(crate) fn ask(
    conversation: &Conversation,
    question: &Question,
    budget: usize,
) -> Result<[bool; 2]> {
    let asked = question.lead.iter().cloned().chain([Message::user(&*question.text)]);
    let now = conversation.messages.last().map_or(UNIX_EPOCH, |(at, _)| *at);
    let all = conversation.messages.iter().cloned().chain(asked.map(|message| (now, message)));
    let (times, messages): (Vec<_>, Vec<_>) = all.unzip();
    let memory = DefaultChatMemory::new();
    memory.append_with(&mut Append::new(messages).with_times(times))?;
    let mut prompt = MemoryPrompt::new(memory).max_tokens(budget, Estimate);
    let tail = has_all(&prompt.preview()?, question);
    // Half of the budget is kept for recall, and what the tail leaves of its half.
    prompt.set_recall(Recall::words().tokens(budget).keep_free());
    Ok([tail, has_all(&prompt.preview()?, question)])
}

/// Returns whether all evidence is in the prompt, and whole.
fn has_all(prompt: &Prompt, question: &Question) -> bool {
    let sent = |seq| prompt.with_origins().any(|(origin, _)| origin == Origin::History(seq));
    let recalled = &prompt.report().recalled;
    let quoted = |seq| recalled.iter().any(|it| it.seq == seq && it.whole);
    question.evidence.iter().all(|seq| quoted(*seq) || sent(*seq))
}

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
                Question { lead, text, evidence: vec![reason], kind: "follow-up" }
            } else {
                let kind = "paraphrase";
                Question { lead: Vec::new(), text: question, evidence: vec![fact], kind }
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
        let seq = self.0.len() as u64;
        let at = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seq * 10_000);
        let speaks = if seq.is_multiple_of(2) { Message::user(text) } else { Message::ai(text) };
        self.0.push((at, speaks));
        seq
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
];
