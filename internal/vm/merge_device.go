package vm

// MergeDisk is Merge for one disk.
func MergeDisk(base, want Disk) Disk { return mergeDisk(base, want) }

// MergeNIC is Merge for one network device.
func MergeNIC(base, want NIC) NIC { return mergeNIC(base, want) }
