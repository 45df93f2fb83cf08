package vm

import (
	"maps"
	"slices"
)

// StorageMap says where the disks of each storage go. Two disks of one storage cannot part on the way: the first slot decides,
// and the other is moved afterwards.
func StorageMap(has, planned Spec) map[string]string {
	pairs := map[string]string{}
	note := func(from, to string) {
		if _, decided := pairs[from]; !decided && from != "" && to != "" {
			pairs[from] = to
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(has.Disks)) {
		note(has.Disks[slot].Storage, planned.Disks[slot].Storage)
	}
	if has.EFIDisk != nil && planned.EFIDisk != nil {
		note(has.EFIDisk.Storage, planned.EFIDisk.Storage)
	}
	if has.TPMState != nil && planned.TPMState != nil {
		note(has.TPMState.Storage, planned.TPMState.Storage)
	}
	note(has.CloudInit.Storage, planned.CloudInit.Storage)
	return pairs
}

// Storages are those that the drives of a VM are on, or are to be on, sorted, each once.
func (s *Spec) Storages() []string {
	all := []string{s.CloudInit.Storage}
	for _, d := range s.Disks {
		all = append(all, d.Storage)
	}
	if s.EFIDisk != nil {
		all = append(all, s.EFIDisk.Storage)
	}
	if s.TPMState != nil {
		all = append(all, s.TPMState.Storage)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return id == "" })
}
