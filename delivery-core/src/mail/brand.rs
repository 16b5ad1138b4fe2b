//! The shop's brand in e-mails.

use crate::email::Email;

/// The shop's brand in e-mails: its name, its colours, and the address to which a buyer's reply goes. Every part is
/// optional. If the service has [pages](crate::delivery::Builder::pages), parts that are not set here are taken from
/// the `Look` of the pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Brand {
    pub(crate) name: Option<String>,
    pub(crate) reply_to: Option<Email>,
    /// The background of buttons, and the colour of the text on them.
    pub(crate) colours: Option<[String; 2]>,
}

impl Brand {
    /// Sets the shop's name. It is also the sender's name if the [sender](super::Sender) has no name or is the default
    /// sender.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Fills the missing parts of this brand with those of `other`.
    #[cfg(feature = "pages")]
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            name: self.name.or(other.name),
            reply_to: self.reply_to.or(other.reply_to),
            colours: self.colours.or(other.colours),
        }
    }

    /// Sets the address to which a buyer's reply goes: the header field `Reply-To`.
    #[must_use]
    pub fn reply_to(self, email: Email) -> Self {
        Self { reply_to: Some(email), ..self }
    }
}
