//! What a row says that a provider does not take leaves for nobody, and is told.

#![allow(clippy::unwrap_used, missing_docs)] // a test that fails should say so

use crate::setups::{self, Drawn, prompt_for};
use crate::validators;
use crate::wrong::wrong;
use memory_prompt::message::{
    AiMessage, AiPart, Detail, Media, Part, Picture, PictureType, Reasoning,
};
use memory_prompt::provider::{Blank, Ends, Files, Format, Images, Row};
use memory_prompt::record::Snapshot;
use memory_prompt::report::Reason;
use memory_prompt::wire::{self, Request};
use memory_prompt::{Composer, Message, Provider, ToolCall};
use serde_json::{Value, json};

/// The body of a request, and what it has lost.
fn written(request: &Request<'_>) -> (Value, Vec<String>) {
    let losses = request.losses().iter().map(ToString::to_string).collect();
    (json!(request), losses)
}

/// A picture at an address went to Gemini without its type, which it requires, and to models that
/// can't fetch it: 400, "Invalid or unsupported file uri".
#[test]
fn gemini_is_told_the_type_of_what_it_fetches() {
    let types = [
        ("https://e.x/a.png", Some("image/png")),
        ("https://e.x/A.JPG?size=2#top", Some("image/jpeg")),
        ("gs://bucket/film.mp4", Some("video/mp4")),
        ("https://e.x/a.json", Some("application/json")),
        ("https://e.x/a", None),
        ("https://e.x/v1.2/a", None),
        ("https://e.png", None),
        ("https://e.x/a.gif", None), // "Unsupported MIME type"
        ("gs://bucket/a", None),
    ];
    let models = [None, Some("gemini-3.1-pro"), Some("gemini-2.5-flash"), Some("gemini-2.0-flash")];
    for provider in [Provider::Gemini, Provider::Vertex] {
        let all = types.iter().flat_map(|it| models.map(|model| (it, model)));
        for ((url, expected), model) in all {
            let asks = Message::user([Part::text("Look:"), Part::Image(Media::url(*url))]);
            let prompt = prompt_for(provider, &[asks]);
            let request = Request::new(&prompt).with_some(model, Request::model);
            let (body, losses) = written(&request);
            let is_old = provider == Provider::Gemini && model == Some("gemini-2.0-flash");
            let contents = &body["contents"];
            let bad = validators::gemini_media(contents, !is_old, true);
            assert!(bad.is_empty(), "{provider}, {model:?}: {bad:?}");
            let is_sent = expected.is_some() && !(is_old && url.starts_with("http"));
            let file = &contents[0]["parts"][1]["fileData"];
            let mime = if is_sent { json!(expected) } else { Value::Null };
            assert_eq!(file["mimeType"], mime, "{provider}, {model:?}: {url}");
            let lost = ["message 0, part 1: an image"];
            assert_eq!(losses, lost[usize::from(is_sent)..], "{provider}, {model:?}: {url}");
        }
    }
    // Google knows the type of these by itself.
    for url in [
        "https://www.youtube.com/watch?v=a",
        "https://generativelanguage.googleapis.com/v1beta/files/a",
    ] {
        let film = Message::user([Part::Video(Media::url(url))]);
        let prompt = prompt_for(Provider::Gemini, &[film]);
        let (body, losses) = written(&Request::new(&prompt).model("gemini-2.0-flash"));
        assert_eq!(body["contents"][0]["parts"][0]["fileData"], json!({"fileUri": url}));
        assert_eq!(losses, [""; 0]);
    }
}

/// How closely a picture is to be looked at was lost without a word where the format has no place
/// for it; Gemini has one, which its models before 3 answer 400 to.
#[test]
fn the_detail_of_a_picture_is_sent_or_told() {
    let picture =
        |detail| Part::Image(Media::base64("image/png", "iVBORw0KGgo=").with_detail(detail));
    let sent = |provider, model: Option<&'static str>, detail| {
        let prompt = prompt_for(provider, &[Message::user([picture(detail)])]);
        written(&Request::new(&prompt).max_tokens(9).with_some(model, Request::model))
    };
    let told = ["message 0, part 0: the detail of an image"];
    for provider in [Provider::Gemini, Provider::Vertex] {
        let (body, losses) = sent(provider, Some("gemini-3.1-flash"), Detail::High);
        let level = &body["contents"][0]["parts"][0]["mediaResolution"]["level"];
        assert_eq!((level.as_str(), losses.len()), (Some("MEDIA_RESOLUTION_HIGH"), 0));
        let odd = sent(provider, Some("gemini-3.1-flash"), Detail::Other("odd".into()));
        assert_eq!(odd.1, told);
        for model in [None, Some("gemini-2.5-pro"), Some("tuned")] {
            let (body, losses) = sent(provider, model, Detail::Low);
            assert!(validators::gemini_media(&body["contents"], true, false).is_empty(), "{body}");
            assert_eq!(losses, told);
        }
    }
    for provider in [Provider::Anthropic, Provider::ClaudeOnVertex, Provider::Ollama] {
        assert_eq!(sent(provider, None, Detail::High).1, told, "{provider}");
    }
    let (body, losses) = sent(Provider::OpenAi, None, Detail::High);
    let level = &body["messages"][0]["content"][0]["image_url"]["detail"];
    assert_eq!((level.as_str(), losses.len()), (Some("high"), 0));
    // A word of Google's; OpenAI's own are four.
    for provider in [Provider::OpenAi, Provider::OpenAiResponses] {
        let (body, losses) = sent(provider, None, Detail::Other("ultra_high".into()));
        assert_eq!(
            (validators::details(&body), losses),
            (Vec::new(), told.map(String::from).into())
        );
        let (body, losses) = sent(provider, None, Detail::Other("original".into()));
        assert!(body.to_string().contains("original") && losses.is_empty(), "{body}");
    }
    // Which is what they would do anyway.
    for provider in setups::all().into_iter().filter(|it| *it != Provider::DeepSeek) {
        assert_eq!(sent(provider, None, Detail::Auto).1, [""; 0], "{provider}");
    }
    // In a result Gemini has no place for it.
    let call = ToolCall::new("c", "look", "{}");
    let gives = Message::tool("c", "look", vec![picture(Detail::Low)]);
    let history = [Message::user("q"), Message::ai_calls([call]), gives];
    let prompt = prompt_for(Provider::Gemini, &history);
    let (body, losses) = written(&Request::new(&prompt).model("gemini-3.1-flash"));
    assert_eq!(losses, ["message 2, part 0: the detail of an image"]);
    assert!(!body.to_string().contains("mediaResolution"));
}

/// The id of a file that was given to OpenAI went to every server of its format, where it means
/// nothing.
#[test]
fn files_of_openai_go_to_nobody_else() {
    let asks = Message::user([Part::text("Read:"), Part::File(Media::file_id("file-abc"))]);
    let gateway = Provider::custom(Row::like(Provider::OpenAi, "our-gateway").unwrap());
    let known =
        [Provider::OpenAi, Provider::OpenAiResponses, Provider::Azure, Provider::LiteLlm, gateway];
    for provider in setups::all().into_iter().chain([gateway, Provider::Groq.model("m")]) {
        let prompt = prompt_for(provider, std::slice::from_ref(&asks));
        let (body, losses) = written(&Request::new(&prompt).max_tokens(9));
        // A template of the application's own is a server of its own.
        let is_own = matches!(provider, Provider::Custom(row)
            if row.model().is_none() && row.files != Files::Never);
        let may_know = known.contains(&provider) || (is_own && provider.format() == Format::OpenAi);
        assert_eq!(body.to_string().contains("file-abc"), may_know, "{provider}: {body}");
        assert_eq!(losses.is_empty(), may_know, "{provider}: {losses:?}");
        if !may_know {
            assert_eq!(losses, ["message 0, part 1: a file"], "{provider}");
            assert_eq!(wrong(provider, &body), [""; 0], "{provider}");
        }
    }
    // What a server itself gave such an id goes back to it.
    let body =
        json!([{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]);
    let read = wire::history(Provider::OpenRouter, body).unwrap();
    for (provider, goes) in [(Provider::OpenRouter, true), (Provider::OpenAi, false)] {
        let (body, _) = written(&Request::new(&prompt_for(provider, &read)));
        assert_eq!(body.to_string().contains("file-1"), goes, "{provider}: {body}");
    }
}

/// vLLM, llama.cpp and Google's server for OpenAI's format know no files: each request of a
/// conversation in which a file had been sent was a 400 from then on. One that is a text is sent as
/// a text, there and at all others that take none.
#[test]
fn who_takes_no_files_is_sent_none() {
    use Provider::{DeepSeek, GoogleOpenAi, Groq, LlamaCpp, StrictTemplate, Vllm};
    let pdf = Media::base64("application/pdf", "JVBERi0=").with_name("a.pdf");
    let csv = Media::base64("text/csv", "YSxi").with_name("a.csv");
    let asks = [Message::user([Part::text("Sum up"), Part::File(pdf), Part::File(csv)])];
    for provider in [Vllm, LlamaCpp, GoogleOpenAi, StrictTemplate, Groq, DeepSeek] {
        let (body, losses) = written(&Request::new(&prompt_for(provider, &asks)).model("m"));
        assert_eq!(wrong(provider, &body), [""; 0], "{provider}");
        assert_eq!(losses, ["message 0, part 1: a file"], "{provider}");
        let text = body["messages"][0]["content"].to_string();
        assert!(!text.contains("JVBERi0") && text.contains("a,b"), "{provider}: {text}");
    }
}

/// With manual thinking a tool loop that another provider began, or Claude without thinking, was
/// a 400: "Expected `thinking` or `redacted_thinking`, but found `tool_use`".
#[test]
fn thinking_does_not_begin_in_a_tool_loop() {
    let call = |id: &str| ToolCall::new(id, "look", "{}");
    let asks = |id: &str| Message::ai_calls([call(id)]);
    let gives = |id: &str| Message::tool(id, "look", "1");
    let thought = |marked| {
        let mut thought = Reasoning::new("hm").with_signature("s");
        let responses = ("responses", json!({"id": "rs_1"}));
        let (by, fields) = if marked { ("anthropic", json!({})) } else { responses };
        thought.extra.insert(by.into(), fields);
        AiPart::Reasoning(thought)
    };
    let thinks =
        |id: &str, marked| AiMessage::from_parts([thought(marked), call(id).into()]).into();
    let user = || Message::user("q");
    let looked = |id: &str| vec![user(), asks(id), gives(id)];
    let loops = [
        (looked("a"), Some(1)),
        (vec![user(), thinks("a", false), gives("a")], Some(1)),
        (vec![user(), asks("a"), gives("a"), thinks("b", true), gives("b")], Some(1)),
        (vec![user(), asks("a"), gives("a"), user()], Some(1)),
        (vec![user(), thinks("a", true), gives("a")], None),
        (vec![user(), thinks("a", true), gives("a"), asks("b"), gives("b")], None),
        (vec![user(), asks("a"), gives("a"), Message::ai("1."), user()], None),
        (vec![user(), Message::ai("1."), user()], None),
        ([looked("a"), vec![Message::ai("1.")], looked("b")].concat(), Some(5)),
    ];
    let manual = json!({"type": "enabled", "budget_tokens": 1024});
    let clears = json!({"edits": [{"type": "clear_thinking_20251015"}]});
    for provider in [Provider::Anthropic, Provider::ClaudeOnBedrock, setups::older_claude()] {
        for (history, first) in &loops {
            let prompt = prompt_for(provider, history);
            let request = || {
                let request = Request::new(&prompt).model("claude-sonnet-4-5").max_tokens(9_000);
                request.extra("context_management", clears.clone())
            };
            let asked = request().extra("thinking", manual.clone());
            let (body, losses) = written(&asked);
            assert_eq!(validators::thinking(&body), [""; 0], "{body:#}");
            assert_eq!(body.get("thinking").is_none(), first.is_some(), "{body:#}");
            let told = first.map(|first| format!("message {first}: the option `thinking`"));
            let told: Vec<_> = told.into_iter().collect();
            let option = losses.into_iter().filter(|it| it.ends_with("`thinking`"));
            assert_eq!(option.collect::<Vec<_>>(), told);
            assert_eq!(asked.clone().strict().is_err(), first.is_some());
            // What is left out breaks no cached prefix.
            let plain = Request::new(&prompt).model("claude-sonnet-4-5");
            let asked = plain.clone().extra("thinking", manual.clone());
            assert_eq!(asked.fingerprint() != plain.fingerprint(), first.is_none());
            // Adaptive thinking needs no block before it.
            let (body, _) = written(&request().extra("thinking", json!({"type": "adaptive"})));
            assert_eq!(body["thinking"]["type"], "adaptive");
        }
    }
    // A twin that does not sign has rules of its own.
    let mut row = Row::like(Provider::Anthropic, "twin").unwrap();
    row.signed_reasoning = false;
    let prompt = prompt_for(Provider::custom(row), &loops[0].0);
    let (body, _) = written(&Request::new(&prompt).max_tokens(9_000).extra("thinking", manual));
    assert_eq!(body["thinking"]["type"], "enabled");
}

#[test]
fn the_validators_can_fail() {
    let contents = |part: Value| json!([{"role": "user", "parts": [part]}]);
    let bare = contents(json!({"fileData": {"fileUri": "https://e.x/a"}}));
    assert_eq!(validators::gemini_media(&bare, true, true).len(), 1);
    assert_eq!(validators::gemini_media(&bare, false, true).len(), 2);
    let close = contents(json!({"text": "", "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}));
    assert_eq!(validators::gemini_media(&close, true, false).len(), 1);
    let body = json!({"thinking": {"type": "enabled"}, "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
    ]});
    assert_eq!(validators::thinking(&body).len(), 1);
    let body = json!({"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}});
    assert_eq!(validators::thinking(&body).len(), 1);
}

/// A server without a system message, which takes any message first: the system message waited for
/// a message of the user, and where none came, it was gone.
#[test]
fn a_system_message_without_a_place_is_sent_where_no_user_speaks() {
    let mut row = Row::like(Provider::OpenAiCompatible, "no-system").unwrap();
    row.system = false;
    row.late_system = true; // says nothing without the other
    let provider = Provider::custom(row);
    let calls = Message::ai_calls([ToolCall::new("c1", "look", "{}")]);
    let histories = [
        vec![],
        vec![Message::ai("Hello! Tea?")],
        vec![calls, Message::tool("c1", "look", "rain")],
        vec![Message::user("hi"), Message::ai("Hello!")],
    ];
    for history in histories {
        let history = [vec![Message::system("Be brief.")], history].concat();
        let prompt = prompt_for(provider, &history);
        let messages = json!(wire::openai::messages(&prompt));
        let first = messages[0].to_string();
        assert!(first.contains("Be brief.") && first.contains("\"user\""), "{messages}");
        assert_eq!(validators::no_system(&messages), Vec::<String>::new(), "{messages}");
        assert_eq!(messages.to_string().matches("Be brief.").count(), 1, "{messages}");
    }
}

/// Two answers in a row that call under one id: joined to one message, the id stood there twice.
#[test]
fn joined_calls_have_ids_of_their_own() {
    let mut row = Row::like(Provider::OpenAiCompatible, "joins").unwrap();
    row.joins_calls = true;
    let call = || Message::ai_calls([ToolCall::new("c1", "look", "{}")]);
    let result = |said: &str| Message::tool("c1", "look", said);
    let history = [Message::user("?"), call(), call(), result("rain"), result("sun")];
    let prompt = prompt_for(Provider::custom(row), &history);
    let ids: Vec<_> = prompt[1].tool_calls().map(|call| call.id.clone()).collect();
    assert!(ids.len() < 2 || ids[0] != ids[1], "{ids:?}");
    let messages = json!(wire::openai::messages(&prompt));
    assert_eq!(validators::openai(&messages), Vec::<String>::new(), "{messages}");
}

/// A row that refuses white space at the end and empty texts: an answer of nothing else is blank.
#[test]
fn an_answer_of_white_space_is_blank_where_it_is_trimmed() {
    let mut row = Row::like(Provider::OpenAiCompatible, "trims").unwrap();
    row.ends = Ends::Trimmed;
    row.blank = Blank::Empty;
    let history = [Message::user("hi"), Message::ai("  ")];
    let prompt = prompt_for(Provider::custom(row), &history);
    assert_eq!(prompt.iter().map(Message::text).collect::<Vec<_>>(), ["hi"]);
    assert_eq!(prompt.report().left_out[0].why, Reason::Blank);
}

/// An image of a type that the server's models can't read was a 400 in each later request.
#[test]
fn of_images_a_provider_is_sent_those_that_it_reads() {
    let types = [
        ("image/png", "iVBORw0KGgo="),
        ("image/jpeg", "/9j/AA=="),
        ("image/gif", "R0lGODlhAQABAAAA"),
        ("image/webp", "UklGRhoAAABXRUJQVlA4"),
        ("image/heic", "AAAAGGZ0eXBoZWlj"),
    ];
    let table = [
        (Provider::OpenAi, "png jpeg gif webp"),
        (Provider::Anthropic, "png jpeg gif webp"),
        (Provider::Vllm, "png jpeg gif webp"),
        (Provider::LlamaCpp, "png jpeg gif"),
        (Provider::Xai, "png jpeg"),
        (Provider::Ollama, "png jpeg"),
        (Provider::GoogleOpenAi, "png jpeg webp heic"),
        (Provider::Gemini, "png jpeg webp heic"),
        (Provider::LiteLlm, "png jpeg gif webp heic"),
        (Provider::DeepSeek, ""),
    ];
    for (provider, read) in table {
        let images = types.map(|(kind, data)| Part::Image(Media::base64(kind, data)));
        let prompt = prompt_for(provider, &[Message::user(images)]);
        let (body, losses) = written(&Request::new(&prompt).max_tokens(9));
        let sent = types.iter().filter(|(_, data)| body.to_string().contains(data));
        let sent: Vec<_> = sent.filter_map(|(kind, _)| kind.strip_prefix("image/")).collect();
        assert_eq!(sent.join(" "), read, "{provider}: {body}");
        assert_eq!(losses.len(), types.len() - sent.len(), "{provider}: {losses:?}");
        assert_eq!(wrong(provider, &body), [""; 0], "{provider}: {body}");
    }
    // A row of one's own may say that its server is a newer one.
    let mut row = Row::like(Provider::Ollama, "newer").unwrap();
    row.images = Some(Images { webp: true, ..Images::LEAST });
    let newer: Provider = serde_json::from_value(json!(Provider::custom(row))).unwrap();
    let seen = Message::user(types.map(|(kind, data)| Part::Image(Media::base64(kind, data))));
    let body = json!(Request::new(&prompt_for(newer, &[seen])));
    assert_eq!(body["messages"][0]["images"].as_array().unwrap().len(), 3, "{body}");
    // Ollama's models are shown what another one drew, too.
    let drawn = types.map(|(kind, data)| Part::Image(Media::base64(kind, data)));
    let history = [Message::user("Draw."), AiMessage::from_parts(drawn).into(), Message::user("q")];
    let body = json!(Request::new(&prompt_for(Provider::Ollama, &history)));
    assert_eq!(body["messages"][1]["images"].as_array().unwrap().len(), 2, "{body}");
}

/// llama.cpp refuses to go on with an answer where the model thinks, and with two of them always:
/// "Cannot have 2 or more assistant messages at the end of the list."
#[test]
fn llama_cpp_is_sent_no_answer_at_the_end() {
    let history = [Message::user("A rhyme?"), Message::ai("Roses"), Message::ai("are")];
    let prompt = prompt_for(Provider::LlamaCpp, &history);
    assert_eq!(prompt.iter().last(), Some(&Message::user("(continue)")));
    assert_eq!(wrong(Provider::LlamaCpp, &json!(Request::new(&prompt))), [""; 0]);
}

/// A late system message was put before the messages that it follows, where those were held for
/// more of their side.
#[test]
fn a_late_system_message_keeps_its_place_where_sides_alternate() {
    let mut row = Row::like(Provider::StrictTemplate, "late").unwrap();
    row.late_system = true;
    let late = || Message::system("In French.");
    let calls = || Message::ai_calls([ToolCall::new("call00001", "look", "{}")]);
    let gives = || Message::tool("call00001", "look", "1");
    let (asks, says) = (|| Message::user("hi"), || Message::ai("Hello."));
    let kept = [
        vec![asks(), late(), asks()],
        vec![asks(), says(), late(), says(), asks()],
        vec![asks(), says(), late(), asks()],
        vec![asks(), late(), calls(), gives(), says(), asks()],
    ];
    for history in kept {
        let composer = Composer::new().for_provider(Provider::custom(row));
        let held = Snapshot::from_messages(history.clone());
        let prompt = composer.compose_all(&held, &[]).unwrap();
        assert_eq!(prompt.to_messages(), history, "{}", prompt.report());
    }
}

/// A server of one's own with the format of Responses was sent OpenAI's cache mark in any case.
#[test]
fn a_row_decides_whether_a_cache_mark_is_sent() {
    for like in [Provider::OpenAi, Provider::OpenAiResponses] {
        let mut row = Row::like(like, "our-own").unwrap();
        row.cache_marks = false;
        for (provider, marks) in [(like, 1), (Provider::custom(row), 0)] {
            let prompt = prompt_for(provider, &[Message::user("Hi."), Message::ai("Hello.")]);
            let body = json!(Request::new(&prompt).model("m").cache_prefix()).to_string();
            assert_eq!(
                body.matches("prompt_cache_breakpoint").count(),
                marks,
                "{provider}: {body}"
            );
        }
    }
}

/// A model's name of more than 95 bytes was dropped silently: a request of a prompt that was
/// composed for it named no model, and a picture counted as another model's.
#[test]
fn a_long_name_of_a_model_is_kept() {
    let profile = "bedrock/arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:inference-profile/\
                   us-gov.anthropic.claude-3-5-sonnet-20240620-v1:0";
    let picture = Picture { media_type: PictureType::Png, width: 1_024, height: 1_024 };
    let padded = |length: usize| format!("{profile:/<length$}");
    for (name, is_kept) in [(profile, true), (&padded(255), true), (&padded(256), false)] {
        let provider = Provider::LiteLlm.model(name);
        let prompt = prompt_for(provider, &[Message::user("Hi.")]);
        let kept = is_kept.then_some(name);
        assert_eq!(json!(Request::new(&prompt))["model"], json!(kept), "{name}");
        assert_eq!(json!(Request::new(&prompt).model(name))["model"], name);
        let restored: Provider = serde_json::from_value(json!(provider)).unwrap();
        assert_eq!((restored, restored.row().model()), (provider, kept));
        assert_eq!(provider.row().picture_tokens(picture, None).is_some(), is_kept, "{name}");
    }
}

/// A kind of image that nobody knows was passed over in a row's JSON.
#[test]
fn images_of_a_row_are_named_rightly() {
    let row = json!({"name": "own", "format": "openai", "images": {"webp": true}});
    let read = |row: &Value| serde_json::from_value::<Row>(row.clone());
    assert_eq!(read(&row).unwrap().images, Some(Images { webp: true, ..Images::LEAST }));
    let mut typo = row.clone();
    typo["images"] = json!({"wepb": true});
    assert!(read(&typo).unwrap_err().to_string().contains("wepb"));
    typo.as_object_mut().unwrap().remove("images");
    assert_eq!(read(&typo).unwrap().images, Some(Images::COMMON));
    typo["images"] = Value::Null;
    assert_eq!(read(&typo).unwrap().images, None);
}
