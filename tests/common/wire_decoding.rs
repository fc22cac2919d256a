//! What must hold for any bytes at all in every wire decoder: what the fuzz targets run, and
//! `tests/wire/fuzz.rs` over their seeds.
//!
//! The first byte says which decoder reads the rest: `a` an answer, `h` a history, `s` a stream of
//! one event a line. Whatever else it is goes to all of them.

use memory_prompt::Message;
use memory_prompt::codec::{self, Codec};
use memory_prompt::wire::{Frames, anthropic, gemini, langchain4j, ollama, openai, responses};

/// Which decoders read these bytes.
fn split(bytes: &[u8]) -> Option<(Option<u8>, &str)> {
    let text = std::str::from_utf8(bytes).ok()?;
    match bytes.first()? {
        which @ (b'a' | b'h' | b's') => Some((Some(*which), &text[1..])),
        _ => Some((None, text)),
    }
}

/// Whatever is read can be stored, in every codec, and comes back.
fn storable(messages: &[Message]) {
    for codec in [Codec::Json, Codec::Bincode] {
        let bytes = codec.encode_all(messages).expect("what was read can be stored");
        assert_eq!(codec::decode_all(&bytes).expect("what was stored can be read"), messages);
    }
}

macro_rules! format {
    ($name:ident, $view:path) => {
        /// This format's decoders: no panic, and what was read can be written and read again; the
        /// second time nothing changes any more.
        pub fn $name(bytes: &[u8]) {
            fn rewrite(messages: &[Message]) {
                storable(messages);
                let written = serde_json::to_string(&$view(messages)).expect("serialising");
                let again = $name::history(&written).expect("what was written can be read");
                let twice = serde_json::to_string(&$view(&again)).expect("serialising");
                let third = $name::history(&twice).expect("what was written twice can be read");
                // A system message has its place beside the messages, and is not in what was
                // written.
                if !again.iter().any(Message::is_system) {
                    assert_eq!(third, again, "{written}");
                }
                let _ = $view(messages).strict();
            }

            let Some((which, text)) = split(bytes) else { return };
            let asked = |one| which.is_none_or(|which| which == one);
            if asked(b'a')
                && let Ok(answer) = $name::answer(text)
            {
                rewrite(&[answer.into()]);
            }
            if asked(b'h')
                && let Ok(messages) = $name::history(text)
            {
                rewrite(&messages);
            }
            if asked(b's') {
                let read = || {
                    let mut stream = $name::Stream::new();
                    for line in text.lines() {
                        let _ = stream.push(line);
                    }
                    stream
                };
                // What is left of it is storable wherever it broke off.
                rewrite(&[read().broken().into()]);
                if let Ok(answer) = read().finish() {
                    rewrite(&[answer.into()]);
                }
            }
        }
    };
}

format!(openai, openai::Messages::of);
format!(responses, responses::Input::of);
format!(anthropic, anthropic::Messages::of);
format!(gemini, gemini::Contents::of);
format!(ollama, ollama::Messages::of);

/// What LangChain4j stored: it has neither answers nor streams.
pub fn langchain4j(bytes: &[u8]) {
    let Some((_, text)) = split(bytes) else { return };
    if let Ok(messages) = langchain4j::history(text) {
        storable(&messages);
        let view = langchain4j::Messages::of(&messages);
        let written = serde_json::to_string(&view).expect("serialising");
        let again = langchain4j::history(&written).expect("what was written can be read");
        let twice = serde_json::to_string(&langchain4j::Messages::of(&again)).expect("serialising");
        let third = langchain4j::history(&twice).expect("what was written twice can be read");
        assert_eq!(third, again, "{written}");
        let _ = view.strict();
    }
}

/// The framing of a streamed body: cut anywhere it is the same texts, and nothing comes of nothing.
/// The first byte says where it is cut.
pub fn frames(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else { return };
    let cut = usize::from(*first) % (body.len() + 1);
    for frames in [Frames::sse, Frames::lines] {
        let read = |pieces: &[&[u8]]| {
            // Small enough to be reached.
            let mut frames = frames().with_limit(64);
            let mut texts = Vec::new();
            for piece in pieces {
                texts.extend(frames.push(piece).map(|text| text.map_err(|e| e.to_string())));
            }
            texts.extend(frames.finish().map_err(|e| e.to_string()).transpose());
            texts
        };
        let texts = read(&[body]);
        assert_eq!(texts, read(&[&body[..cut], &body[cut..]]));
        assert_eq!(texts, read(&body.chunks(1).collect::<Vec<_>>()));
        // Bytes that are no UTF-8 become a replacement character, which has three.
        let replaced = body.utf8_chunks().filter(|it| !it.invalid().is_empty()).count();
        let most =
            |bytes: usize, text: &str| bytes + 2 * replaced.min(text.matches('\u{fffd}').count());
        let said: Vec<&String> = texts.iter().flatten().collect();
        assert!(said.iter().map(|text| text.len()).sum::<usize>() <= body.len() + 2 * replaced);
        assert!(said.iter().all(|text| text.len() <= most(64 + 9, text)));
    }
}

/// A target's name and its check.
pub type Target = (&'static str, fn(&[u8]));

/// Every target: those of the formats, and the framing.
pub const TARGETS: [Target; 7] = [
    ("wire_openai", openai),
    ("wire_responses", responses),
    ("wire_anthropic", anthropic),
    ("wire_gemini", gemini),
    ("wire_ollama", ollama),
    ("wire_langchain4j", langchain4j),
    ("wire_frames", frames),
];

/// The targets of the formats, which have goldens.
pub const FORMATS: &[Target] = TARGETS.split_at(6).0;
