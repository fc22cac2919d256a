//! The tokens that a picture costs by the rule of its provider.

use super::model::version;
use super::row::{Format, Row};
use crate::message::{Detail, Picture};

impl Row {
    /// Returns the tokens that a picture of these dimensions costs in this detail, by the rule that
    /// is published for the model; `None` if none is known.
    ///
    /// Anthropic and Google have one rule per family, and without a
    /// [model](crate::Provider::model) the more expensive one is used. OpenAI's rules differ by
    /// model, and only those of these models are known: GPT-4o, 4.1 and 5, o1, o3, o4-mini,
    /// and their smaller ones. The name decides, whichever provider serves the model.
    ///
    /// A token budget counts by this rule, unless its counter has [a count of its
    /// own](crate::token::TokenCounter::count_media).
    ///
    /// ```
    /// use memory_prompt::Provider;
    /// use memory_prompt::message::{Detail, Picture, PictureType};
    ///
    /// let picture = Picture { media_type: PictureType::Png, width: 1_024, height: 1_024 };
    /// let tokens = |provider: Provider| provider.row().picture_tokens(picture, None);
    /// assert_eq!(tokens(Provider::Anthropic), Some(1_399));
    /// assert_eq!(tokens(Provider::OpenAi.model("gpt-4o")), Some(765));
    /// assert_eq!(tokens(Provider::OpenAi.model("gpt-4.1-mini")), Some(1_659));
    /// assert_eq!(tokens(Provider::Gemini.model("gemini-2.5-flash")), Some(1_032));
    /// assert_eq!(tokens(Provider::Ollama), None);
    /// let low = Provider::OpenAi.model("gpt-4o").row().picture_tokens(picture, Some(&Detail::Low));
    /// assert_eq!(low, Some(85));
    /// ```
    pub fn picture_tokens(&self, picture: Picture, detail: Option<&Detail>) -> Option<usize> {
        let model = self.model().unwrap_or_default();
        let sides = (u64::from(picture.width), u64::from(picture.height));
        let detail = detail.filter(|_| self.detail);
        let named = by_name(model.rsplit('/').next()?, sides, detail == Some(&Detail::Low));
        let (is_claude, is_gemini) = (model.contains("claude"), model.contains("gemini"));
        let is_googles = self.format == Format::Gemini || self.name() == "google_openai";
        let tokens = if let Some(tokens) = named {
            tokens
        } else if is_gemini || is_googles && !is_claude {
            gemini(version("gemini", model), sides, detail)
        } else if is_claude || self.format == Format::Anthropic {
            claude(version("claude", model), sides)
        } else {
            return None;
        };
        usize::try_from(tokens).ok()
    }
}

/// "width * height / 750 tokens", after scaling down: to 1,568 pixels a side and about 1,600
/// tokens, from Claude 4.7 on to 2,576 and 4,784.
fn claude(version: Option<(u32, u32)>, sides: (u64, u64)) -> u64 {
    let is_old = version.is_some_and(|version| version < (4, 7));
    let (edge, most) = if is_old { (1_568, 1_600) } else { (2_576, 4_784) };
    let (width, height) = within(sides, edge, edge);
    (width * height).div_ceil(750).min(most)
}

/// 258 tokens for a picture of up to 384 pixels a side, else for each tile of it; from Gemini 3 on
/// only the detail counts.
fn gemini(version: Option<(u32, u32)>, sides: (u64, u64), detail: Option<&Detail>) -> u64 {
    let by_detail = match detail.map(Detail::as_str) {
        Some("low") => 280,
        Some("medium") => 560,
        Some("ultra_high") => 2_240,
        _ => 1_120,
    };
    let (width, height) = sides;
    let tile = (width.min(height) * 2 / 3).clamp(256, 768);
    let tiles = if width.max(height) <= 384 { 1 } else { grid(sides, tile) };
    match version {
        Some(version) if version >= (3, 0) => by_detail,
        Some(_) => tiles * 258,
        None => by_detail.max(tiles * 258),
    }
}

/// Tiles of 512 pixels: the tokens of any picture, and those of each tile.
const TILES: [(&str, u64, u64); 7] = [
    ("gpt-4o-mini", 2_833, 5_667),
    ("gpt-4o", 85, 170),
    ("gpt-4.1", 85, 170),
    ("gpt-5", 70, 140),
    ("gpt-5-chat", 70, 140),
    ("o1", 75, 150),
    ("o3", 75, 150),
];

/// Patches of 32 pixels, at most 1,536, and the cost of each in hundredths of a token.
const PATCHES: [(&str, u64); 5] = [
    ("gpt-4.1-mini", 162),
    ("gpt-4.1-nano", 246),
    ("gpt-5-mini", 162),
    ("gpt-5-nano", 246),
    ("o4-mini", 172),
];

/// Returns the tokens by the tables of OpenAI's guide to images.
fn by_name(model: &str, sides: (u64, u64), is_low: bool) -> Option<u64> {
    // After the name comes a date or nothing: `gpt-5.4` is another model than `gpt-5`.
    let is_of = |name: &str| {
        let rest = model.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("-20") || rest == "-latest")
    };
    if let Some((_, hundredths)) = PATCHES.iter().find(|(name, ..)| is_of(name)) {
        return Some((grid(sides, 32).min(1_536) * hundredths).div_ceil(100));
    }
    let (_, base, each) = TILES.iter().find(|(name, ..)| is_of(name))?;
    let tiles = if is_low { 0 } else { grid(within(sides, 2_048, 768), 512) };
    Some(base + tiles * each)
}

/// Returns the sides, scaled down so that the longer and the shorter one are at most this long.
fn within((width, height): (u64, u64), longer: u64, shorter: u64) -> (u64, u64) {
    let scaled = |(width, height): (u64, u64), most: u64, side: u64| {
        let side = side.max(most); // what is smaller stays as it is
        ((width * most).div_ceil(side), (height * most).div_ceil(side))
    };
    let fit = scaled((width, height), longer, width.max(height));
    scaled(fit, shorter, fit.0.min(fit.1))
}

/// Returns the number of squares of this side that cover it.
fn grid((width, height): (u64, u64), side: u64) -> u64 {
    width.div_ceil(side) * height.div_ceil(side)
}
