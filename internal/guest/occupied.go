package guest

import "sync"

// occupied are the VMIDs that creates and destroys of this process are at work on. PVE reserves no id that it gives as the next
// free one, and frees one before the volumes that carry it are gone.
type occupied struct {
	mu  sync.Mutex
	ids map[int]int // how many are at work on each
}

// Occupy notes that something is at work on an id until the returned function is called.
func (s *Guests) Occupy(vmid int) (done func()) {
	o := &s.occupied
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(vmid, 1)
	return func() { o.leave(vmid) }
}

// OccupyIdle is Occupy for an id that nothing here is at work on; ok is false where something is.
func (s *Guests) OccupyIdle(vmid int) (done func(), ok bool) {
	o := &s.occupied
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[vmid] > 0 {
		return nil, false
	}
	o.add(vmid, 1)
	return func() { o.leave(vmid) }, true
}

func (o *occupied) leave(vmid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(vmid, -1)
}

func (o *occupied) add(vmid, n int) {
	if o.ids == nil {
		o.ids = map[int]int{}
	}
	if o.ids[vmid] += n; o.ids[vmid] == 0 {
		delete(o.ids, vmid)
	}
}
