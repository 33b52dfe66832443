//! The files of tuned's profiles: sections of `key=value`, and profiles that include others (tuned.conf(5),
//! tuned-profiles(7)).

/// A profile that includes itself ends here.
const DEPTH_MAX: usize = 10;

/// A profile: sections in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) sections: Vec<Section>,
    includes: Vec<String>,
}

/// The settings of one plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) options: Vec<(String, String)>,
}

impl Section {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, key: &str, value: &str) {
        match self.options.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => value.clone_into(old),
            None => self.options.push((key.to_owned(), value.to_owned())),
        }
    }
}

impl Profile {
    /// Reads one file, without what it includes. Lines that are neither a section nor an option are skipped, as tuned
    /// does.
    pub(super) fn parse(text: &str) -> Self {
        let mut profile = Self::default();
        let mut at = None;
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                at = Some(name.trim().to_owned());
                continue;
            }
            let (Some(name), Some((key, value))) = (&at, line.split_once('=')) else { continue };
            let (key, value) = (key.trim(), value.trim().trim_matches(['"', '\'']));
            match name.as_str() {
                "main" if key == "include" => {
                    let names = value.split([',', ';']).map(|name| name.trim().to_owned());
                    profile.includes = names.filter(|name| !name.is_empty()).collect();
                }
                "main" | "variables" => {}
                name => profile.section(name).set(key, value),
            }
        }
        profile
    }

    fn section(&mut self, name: &str) -> &mut Section {
        let at = self.sections.iter().position(|section| section.name == name);
        let at = at.unwrap_or_else(|| {
            self.sections.push(Section { name: name.to_owned(), options: Vec::new() });
            self.sections.len() - 1
        });
        &mut self.sections[at]
    }

    /// Lays a profile over this one: option by option, or a whole section where it says `replace`.
    fn overlay(&mut self, over: &Self) {
        for section in &over.sections {
            let here = self.section(&section.name);
            if section.get("replace").is_some_and(|value| matches!(value, "1" | "true" | "True")) {
                here.options.clear();
            }
            section.options.iter().for_each(|(key, value)| here.set(key, value));
        }
    }
}

/// Why a profile is not whole.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotWhole {
    #[error("its includes are more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("it includes {0}, which is not installed")]
    NotInstalled(String),
}

/// A profile with all that it includes; `None` where there is none of that name. `find` has the texts.
pub(super) fn with_includes(
    name: &str,
    find: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Profile>, NotWhole> {
    match find(name) {
        Some(text) => whole(&Profile::parse(&text), find, 0).map(Some),
        None => Ok(None),
    }
}

fn whole(
    profile: &Profile,
    find: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Result<Profile, NotWhole> {
    if depth == DEPTH_MAX {
        return Err(NotWhole::TooDeep);
    }
    let mut merged = Profile::default();
    for name in &profile.includes {
        // With `-` in front a profile need not exist.
        let (name, is_needed) = name.strip_prefix('-').map_or((name.as_str(), true), |name| (name, false));
        match find(name) {
            Some(text) => merged.overlay(&whole(&Profile::parse(&text), find, depth + 1)?),
            None if is_needed => return Err(NotWhole::NotInstalled(name.to_owned())),
            None => {}
        }
    }
    merged.overlay(profile);
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find(name: &str) -> Option<String> {
        let text = match name {
            "base" => "[cpu]\ngovernor = powersave\nforce_latency=10\n[vm]\nx=1\n",
            "child" => {
                "# comment\n[main]\nsummary=x\ninclude=base\n[cpu]\ngovernor=performance\n[sysctl]\na.b=\"1 2\"\n\
                 [vm]\nreplace=1\ny=2\n"
            }
            "loop" => "[main]\ninclude=loop\n",
            "orphan" => "[main]\ninclude=nosuch\n",
            "maybe" => "[main]\ninclude=-nosuch,base\n",
            _ => return None,
        };
        Some(text.to_owned())
    }

    #[test]
    fn what_is_included_comes_first_and_is_overlaid() {
        let profile = with_includes("child", &find).unwrap().unwrap();
        let printed: Vec<String> = profile
            .sections
            .iter()
            .map(|section| format!("{} {:?}", section.name, section.options))
            .collect();
        insta::assert_snapshot!(printed.join("\n"), @r#"
        cpu [("governor", "performance"), ("force_latency", "10")]
        vm [("replace", "1"), ("y", "2")]
        sysctl [("a.b", "1 2")]
        "#);
    }

    #[test]
    fn loops_and_missing_includes_are_said() {
        assert_eq!(with_includes("nosuch", &find), Ok(None));
        assert_eq!(
            with_includes("loop", &find).unwrap_err().to_string(),
            "its includes are more than 10 deep"
        );
        assert_eq!(
            with_includes("orphan", &find).unwrap_err().to_string(),
            "it includes nosuch, which is not installed"
        );
        assert_eq!(with_includes("maybe", &find).unwrap().unwrap().sections.len(), 2);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(\\PC|\n|\\[|\\]|=){0,80}") {
            let _ = Profile::parse(&text);
        }
    }
}
