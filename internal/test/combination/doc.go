// Package combination draws VMs, and changes of a VM, that need several things at once, and disturbs their making.
//
// The laws for a change: No data is lost, unless a plan has named the slot, no third party's disk, and no disk that a
// snapshot has. No guest goes down, unless a plan has said so. Undisturbed, each fact of package foretold that goes was
// named by the plan. A change that has ended well has each disk in its slot, with its options, and each part as it is
// configured. A change that can be made is made by the third apply at the latest, unless a third party was there, a
// task of PVE's died, or the error names an object that a killed create has left.
package combination
