//! Writes the table as a page: one file that fetches nothing and runs no script.

use std::fmt::{self, Write as _};

use memory_prompt::window::Prices;

use super::{Run, Setting, best, float, pays_from};

const STYLE: &str = include_str!("page.css");

/// Returns the page; `read` says what was replayed.
pub(super) fn page(read: &str, settings: &[Setting], runs: &[Run], prices: Prices) -> String {
    let best = best(settings, runs);
    let most = runs.iter().map(|run| run.tokens).max().unwrap_or(0).max(1);
    let Prices { write, read: cached } = prices;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\
         <title>What each setting would have cost</title>\n<style>{STYLE}</style></head>\n\
         <body><main><h1>What each setting would have cost</h1>\n\
         <p>{read}. Cost in tokens at the full price: cached ones at {cached}, others at {write}.\
         </p>\n<p class=\"legend\"><span class=\"cached\">cached</span> \
         <span class=\"new\">new</span></p>\n<div class=\"wide\" tabindex=\"0\"><table><thead><tr>\
         <th scope=\"col\">setting</th><th scope=\"col\">tokens a call</th>\
         <th scope=\"col\">cached</th><th scope=\"col\">cost a call</th>\
         <th scope=\"col\">of everything</th><th scope=\"col\">pays from</th>\
         <th scope=\"col\">orphans</th>\
         <th scope=\"col\">no question</th></tr></thead><tbody>\n"
    );
    for (setting, run) in settings.iter().zip(runs) {
        let is_best = best.is_some_and(|best| best.name == setting.name);
        row(&mut page, setting, run, most, &runs[0], is_best);
    }
    page.push_str("</tbody></table></div>\n<dl>\n");
    for (setting, run) in settings.iter().zip(runs) {
        if let Some((times, error)) = &run.failed {
            let (name, error) = (escaped(&setting.name), escaped(error));
            add(
                &mut page,
                format_args!(
                    "<dt>{name}</dt><dd>{times} prompts could not be built: {error}</dd>\n"
                ),
            );
        }
    }
    page.push_str("</dl>\n");
    if let Some(best) = best {
        let (name, code) = (escaped(&best.name), escaped(&best.code));
        add(
            &mut page,
            format_args!(
                "<p>Cheapest for these conversations: <b>{name}</b></p>\n<pre>{code}</pre>\n"
            ),
        );
    }
    page.push_str("</main></body></html>\n");
    page
}

fn row(page: &mut String, setting: &Setting, run: &Run, most: usize, all: &Run, is_best: bool) {
    let calls = float(run.calls.max(1));
    let class = if is_best { " class=\"best\"" } else { "" };
    let (new, rest) = (run.tokens - run.cached, most - run.tokens);
    add(
        page,
        format_args!(
            "<tr{class}><th scope=\"row\">{}<span class=\"bar\" aria-hidden=\"true\">\
         <span class=\"cached\" style=\"flex:{}\"></span><span class=\"new\" style=\"flex:{new}\">\
         </span><span style=\"flex:{rest}\"></span></span></th>",
            escaped(&setting.name),
            run.cached,
        ),
    );
    let warned = |number: usize| if number > 0 { " class=\"bad\"" } else { "" };
    add(
        page,
        format_args!(
            "<td>{:.0}</td><td>{:.0} %</td><td>{:.0}</td><td>{:.2}</td><td>{}</td>\
             <td{}>{}</td><td{}>{}</td></tr>\n",
            float(run.tokens) / calls,
            float(run.cached) / float(run.tokens.max(1)) * 100.0,
            run.cost / calls,
            run.cost / all.cost,
            pays_from(run, all),
            warned(run.orphans),
            run.orphans,
            warned(run.no_question),
            run.no_question,
        ),
    );
}

fn add(page: &mut String, html: fmt::Arguments<'_>) {
    let _ = page.write_fmt(html); // writing to a string does not fail
}

/// Returns a text that stays text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
