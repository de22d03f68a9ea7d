//! The scripts of the core.

use crate::Bed;

pub(super) fn probe(bed: &mut Bed) {
    bed.call(
        "all rights",
        "core/probe",
        "=redlatch:{a1}:p",
        "PUBLISH redlatch:w:a1",
    );
}
