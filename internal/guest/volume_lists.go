package guest

import (
	"maps"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// volumeLists lists the volumes of VMIDs, one listing of a storage for all who wait for one.
type volumeLists struct {
	mu    sync.Mutex
	lists map[string]*volumeList // by node and storage
}

// volumeList is the listing of one storage on one node.
type volumeList struct {
	*job.Shared[[]pve.Volume]
	mu     sync.Mutex
	wanted map[int]int // VMIDs that are waited for, and by how many
}

func (v *volumeLists) of(node, storage string) *volumeList {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lists == nil {
		v.lists = map[string]*volumeList{}
	}
	at := node + "/" + storage
	if v.lists[at] == nil {
		v.lists[at] = &volumeList{Shared: job.NewShared[[]pve.Volume](), wanted: map[int]int{}}
	}
	return v.lists[at]
}

func (l *volumeList) want(vmid, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted[vmid] += n; l.wanted[vmid] == 0 {
		delete(l.wanted, vmid)
	}
}

// filter is the one VMID that is wanted, 0 if there are several.
func (l *volumeList) filter() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wanted) != 1 {
		return 0
	}
	for vmid := range maps.Keys(l.wanted) {
		return vmid
	}
	return 0
}
