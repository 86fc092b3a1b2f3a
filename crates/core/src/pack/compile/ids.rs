//! Numbers of what a problem is compiled to.

use crate::pack::dense::typed::ids;

ids! {
    /// Of a class among all classes.
    ClassId;
    /// Of an offer among all offers.
    OfferId;
    /// Of a column among all columns, from the cheapest up.
    ColumnId;
    /// Of a demand among all demands.
    DemandId;
    /// Of a group among all groups.
    GroupId;
    /// Of a level of a profile: the first counts every preference.
    LevelId;
    /// Of a cell: a combination of values of all topology keys.
    CellId;
}
