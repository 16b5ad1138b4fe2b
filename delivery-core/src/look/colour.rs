//! The shop's colour, and readable shades of it.

use std::fmt;
use std::str::FromStr;

use crate::text::Invalid;

/// The minimum contrast ratio between text and its background, by WCAG 2.2, success criterion 1.4.3.
const READABLE: f64 = 4.5;
/// The backgrounds on which a link has the least contrast: on light pages, the darker of their two backgrounds, and on
/// dark pages, the lighter. They must be the same as in the stylesheet.
const LIGHT: [u8; 3] = [0xf5, 0xf6, 0xf8];
const DARK: [u8; 3] = [0x1f, 0x24, 0x2c];

/// An RGB colour such as `#1a56db`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour([u8; 3]);

impl Colour {
    /// Returns the CSS that defines the variables of the stylesheet. These are the colour of links and buttons and the
    /// colour of the text on a button, each for light and for dark pages.
    pub(super) fn as_css(self) -> String {
        let (light, dark) = (self.readable(LIGHT, [0; 3]), self.readable(DARK, [0xff; 3]));
        format!(
            ":root{{--accent:{light};--on-accent:{}}}@media(prefers-color-scheme:dark){{:root{{--accent:{dark};--on-accent:{}}}}}\n",
            light.text(),
            dark.text()
        )
    }

    /// Returns a shade of this colour that is readable on light pages, and the colour of text on it.
    pub(super) fn on_light(self) -> (Self, Self) {
        let shade = self.readable(LIGHT, [0; 3]);
        (shade, shade.text())
    }

    /// Returns a shade of this colour that is readable on `background`. The colour is mixed with `towards`, but only as
    /// much as necessary.
    fn readable(self, background: [u8; 3], towards: [u8; 3]) -> Self {
        let shade = |step: u16| {
            let mix = |from: u8, to: u8| {
                let mixed = (u16::from(from) * (20 - step) + u16::from(to) * step) / 20;
                u8::try_from(mixed).unwrap_or(to)
            };
            let [r, g, b] = self.0;
            let [tr, tg, tb] = towards;
            Self([mix(r, tr), mix(g, tg), mix(b, tb)])
        };
        let is_readable = |shade: &Self| contrast(shade.0, background) >= READABLE;
        (0..=20).map(shade).find(is_readable).unwrap_or(Self(towards))
    }

    /// Returns black or white, whichever has the higher contrast to this colour.
    fn text(self) -> Self {
        let [white, black] = [[0xff; 3], [0; 3]];
        Self(if contrast(self.0, white) >= contrast(self.0, black) { white } else { black })
    }
}

/// Returns the contrast ratio of two colours, from 1 to 21, by WCAG 2.2.
fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn luminance(colour: [u8; 3]) -> f64 {
    let [r, g, b] = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

impl Default for Colour {
    /// Returns the blue `#1a56db`.
    fn default() -> Self {
        Self([0x1a, 0x56, 0xdb])
    }
}

impl FromStr for Colour {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid = Invalid::expected("must be a colour such as #1a56db");
        let digits = text.strip_prefix('#').ok_or(EXPECTED)?;
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|_| EXPECTED)?;
        bytes.try_into().map(Self).map_err(|_| EXPECTED)
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [r, g, b] = self.0;
        write!(f, "#{r:02x}{g:02x}{b:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_six_digits() {
        for (text, read) in [
            ("#1a56db", Some("#1a56db")),
            ("#1A56DB", Some("#1a56db")),
            ("1a56db", None),
            ("#1a56d", None),
            ("#1a56db00", None),
            ("#xyzxyz", None),
            ("red", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Colour>().ok().map(|colour| colour.to_string()).as_deref(), read, "{text:?}");
        }
    }

    #[test]
    fn every_colour_can_be_read() {
        for colour in
            ["#000000", "#ffffff", "#ffff00", "#1a56db", "#ff0000", "#00ff00", "#0000ff", "#808080", "#0099ff"]
        {
            let colour: Colour = colour.parse().unwrap();
            // The backgrounds of the page and of the cards on it, light and dark.
            for (chosen_on, shown_on, towards) in
                [(LIGHT, [LIGHT, [0xff, 0xff, 0xff]], [0; 3]), (DARK, [DARK, [0x14, 0x17, 0x1c]], [0xff; 3])]
            {
                let shade = colour.readable(chosen_on, towards);
                for background in shown_on {
                    assert!(contrast(shade.0, background) >= READABLE, "{colour} on {background:?}");
                }
                assert!(contrast(shade.0, shade.text().0) >= READABLE, "text on {shade}");
            }
        }
        assert_eq!("#1a56db".parse::<Colour>().unwrap().readable(LIGHT, [0; 3]).to_string(), "#1a56db");
    }
}
