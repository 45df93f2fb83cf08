package tfkit

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// memory is what one provider process has seen of a configuration while it planned. Terraform shows a provider one
// resource at a time, and some checks against the server are wrong without the others.
type memory struct {
	mu      sync.Mutex
	read    map[int]bool
	planned []Announcement
	failed  map[int][]byte
}

// Announcement is a VM that a plan is going to make.
type Announcement struct {
	VMID int // 0 = not known yet
	Name string
	Tags []string
}

// Remember notes that the VM with this id is in state: it was refreshed.
func (s *Session) Remember(vmid int) {
	if s == nil {
		return
	}
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if s.memory.read == nil {
		s.memory.read = map[int]bool{}
	}
	s.memory.read[vmid] = true
}

// Remembers reports whether the VM with this id was refreshed before. A plan that creates it anew replaces it, so the id
// is not a stranger's. Terraform plans the replacement of a tainted resource without its prior state.
func (s *Session) Remembers(vmid int) bool {
	if s == nil {
		return false
	}
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return s.memory.read[vmid]
}

// KeepFailed notes what is known of a VM that was refreshed and of which a failed create or destroy left something.
func (s *Session) KeepFailed(vmid int, note []byte) {
	if s == nil {
		return
	}
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if s.memory.failed == nil {
		s.memory.failed = map[int][]byte{}
	}
	s.memory.failed[vmid] = note
}

// Failed is what KeepFailed noted, by VMID.
func (s *Session) Failed() map[int][]byte {
	if s == nil {
		return nil
	}
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return maps.Clone(s.memory.failed)
}

// Announce notes a VM that is planned. What depends on it is planned later, and will not find it on the server yet.
func (s *Session) Announce(a Announcement) {
	if s == nil {
		return
	}
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.memory.planned = append(s.memory.planned, a)
}

// Announced reports whether a VM is planned that has this id, or this name, or all of these tags; zero values match
// nothing.
func (s *Session) Announced(like Announcement) bool {
	if s == nil {
		return false
	}
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return slices.ContainsFunc(s.memory.planned, func(a Announcement) bool {
		return like.VMID != 0 && like.VMID == a.VMID || like.Name != "" && like.Name == a.Name || within(like.Tags, a.Tags)
	})
}

// within reports whether all has every one of some tags; PVE does not tell upper from lower case in them.
func within(some, all []string) bool {
	return len(some) > 0 && !slices.ContainsFunc(some, func(tag string) bool {
		return !slices.ContainsFunc(all, func(other string) bool { return strings.EqualFold(tag, other) })
	})
}
