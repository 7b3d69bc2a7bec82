use std::time::SystemTime;

use jiff::{Timestamp, Zoned, fmt::strtime, tz::TimeZone};
use minijinja::{Error, ErrorKind, Value};

/// What a template takes for the present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// The system's clock and time zone, read when the template asks.
    #[default]
    System,
    /// Always this moment, in UTC.
    Fixed(SystemTime),
}

impl Clock {
    /// The function of templates that writes the present in a format of C's `strftime`.
    pub(super) fn strftime_now(self) -> Value {
        Value::from_function(move |format: String| {
            strtime::format(&format, &self.now()?).map_err(|error| {
                Error::new(ErrorKind::InvalidOperation, "strftime_now: unknown format").with_source(error)
            })
        })
    }

    fn now(self) -> Result<Zoned, Error> {
        match self {
            Self::System => Ok(Zoned::now()),
            Self::Fixed(moment) => {
                let moment = Timestamp::try_from(moment).map_err(|error| {
                    Error::new(ErrorKind::InvalidOperation, "strftime_now: no such date").with_source(error)
                })?;
                Ok(moment.to_zoned(TimeZone::UTC))
            }
        }
    }
}
