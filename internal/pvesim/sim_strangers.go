package pvesim

import (
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/stranger"
)

// MarkStrangers marks everything that is there as strangers', but for the guests ours. What strangers make later is marked by
// itself; what a client makes is not.
func (s *Sim) MarkStrangers(ours ...int) {
	s.server.Do(func(w *state.World) { w.MarkStrangers(ours...) })
}

// Strangers is what belongs to strangers, as JSON to compare byte by byte: see state.World.StrangersExport.
func (s *Sim) Strangers() (export []byte) {
	s.server.Do(func(w *state.World) { export = w.StrangersExport() })
	return export
}

// SetStrangers puts orders in the place of those in force. It panics on an order that could never be carried out: that is a broken
// test.
func (s *Sim) SetStrangers(orders []stranger.Order) {
	if err := s.server.Strangers().Put(orders); err != nil {
		panic(fmt.Sprintf("pvesim: %v", err))
	}
}

// Stranger lets a stranger act at once, whatever the order's Before says. It panics as SetStrangers does.
func (s *Sim) Stranger(order stranger.Order) stranger.Deed {
	d, err := s.server.Visit(order)
	if err != nil {
		panic(fmt.Sprintf("pvesim: %v", err))
	}
	return d
}

// Deeds are what strangers did, or could not do, since SetStrangers.
func (s *Sim) Deeds() []stranger.Deed { return s.server.Strangers().Deeds() }
