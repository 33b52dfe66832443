//! Enums whose variants have a name each, which files, flags and sentences share.

/// Declares an enum and each variant's name, once: serde reads and writes the names, `ALL` lists the variants in the order of
/// their declaration, the method that is named behind the enum returns a variant's name, and `from_name` finds a variant by it.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $seen:vis enum $enum:ident: $name:ident {
        $($(#[$variant_about:meta])* $variant:ident = $text:literal,)+
    }) => {
        $(#[$about])*
        $seen enum $enum {
            $($(#[$variant_about])* #[serde(rename = $text)] $variant,)+
        }

        impl $enum {
            /// All of them, in the order of their declaration.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The name in files, flags and sentences.
            #[must_use]
            pub const fn $name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }

            /// The one with that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.$name() == name)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    named! {
        /// Ways to go.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        enum Way: name {
            /// Over there.
            There = "there",
            /// And back.
            #[default]
            ThereAndBack = "there & back",
        }
    }

    #[test]
    fn files_have_the_names() {
        assert_eq!(Way::ALL.map(Way::name), ["there", "there & back"]);
        for way in Way::ALL {
            let written = serde_json::to_string(&way).unwrap();
            assert_eq!(written, format!("{:?}", way.name()));
            assert_eq!(serde_json::from_str::<Way>(&written).unwrap(), way);
            assert_eq!(Way::from_name(way.name()), Some(way));
        }
        assert_eq!(Way::from_name("There"), None);
        assert_eq!(Way::default(), Way::ThereAndBack);
    }
}
