// Package combination draws VMs, and changes of a VM, that need several things at once, and disturbs their making.
package combination
