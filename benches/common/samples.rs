//! Texts to measure with.

use unicode_segmentation::UnicodeSegmentation;

/// Prose or code of each kind, to be repeated up to a length.
#[rustfmt::skip]
pub(crate) const SAMPLES: [(&str, &str); 17] = [
    ("ascii", "The quick brown fox jumps over the lazy dog, then does it again because nobody was looking. "),
    ("ascii crlf", "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 4096\r\n\r\n"),
    ("code", "fn main() {\n    let x: Vec<_> = (0..10).map(|i| i * 2).collect();\n    println!(\"→ {x:?} – ok\");\n}\n"),
    ("french", "Dès Noël, où un zéphyr haï me vêt de glaçons würmiens, je dîne d’exquis rôtis de bœuf. "),
    ("russian", "Съешь же ещё этих мягких французских булок, да выпей чаю. "),
    ("chinese", "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"),
    ("japanese", "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナとABCも混ざる。"),
    ("korean", "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았다. "),
    ("arabic", "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميرًا وعليهم أن يعامل بعضهم بعضًا. "),
    ("hindi", "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है। "),
    ("tamil", "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள். "),
    ("thai", "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม "),
    ("burmese", "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း၊ တူညီလွတ်လပ်သော အခွင့်အရေးများဖြင့် လည်းကောင်း မွေးဖွားလာသူများ ဖြစ်သည်။ "),
    ("tibetan", "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས་དང༌། ཐོབ་ཐངགི་རང་དབང་འདྲ་མཉམ་དུ་ཡོད་ལ། "), // in no fast path
    ("emoji", "👩‍👩‍👧‍👦👍🏽😀❤️🧑🏿‍🚀🏳️‍🌈😂🤷🏻‍♀️"),
    ("flags", "🇳🇴🇸🇪🇩🇰🇫🇮🇮🇸🇪🇪🇱🇻🇱🇹"),
    ("mixed", "Order #42 für Зоя: 東京 → Oslo 🇳🇴, café crème ×2 👍🏽; नमस्ते, 안녕하세요! Total: 1 234,50 €. "),
];

/// So many characters of the sample of this name.
pub(crate) fn sample(name: &str, characters: usize) -> String {
    let (_, sample) = SAMPLES.iter().find(|sample| sample.0 == name).unwrap();
    sample.graphemes(true).cycle().take(characters).collect()
}
