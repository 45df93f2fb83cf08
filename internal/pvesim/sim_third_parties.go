package pvesim

import (
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// MarkThirdParties marks everything that is there as third parties', but for the guests ours. Later things of
// third parties are marked by themselves; those of a client are not.
func (s *Sim) MarkThirdParties(ours ...int) {
	s.server.Do(func(w *state.World) { w.MarkThirdParties(ours...) })
}

// ThirdParties is what belongs to third parties, as JSON to compare byte by byte: see state.World.ExportThirdParties.
func (s *Sim) ThirdParties() (export []byte) {
	s.server.Do(func(w *state.World) { export = w.ExportThirdParties() })
	return export
}

// SetThirdParties puts orders in the place of those in force. It panics on an order that could never be carried out:
// that is a broken test.
func (s *Sim) SetThirdParties(orders []thirdparty.Order) {
	if err := s.server.ThirdParties().Put(orders); err != nil {
		panic(fmt.Sprintf("pvesim: %v", err))
	}
}

// ThirdParty lets a third party act at once, whatever the order's Before says. It panics as SetThirdParties does.
func (s *Sim) ThirdParty(order thirdparty.Order) thirdparty.Report {
	d, err := s.server.Act(order)
	if err != nil {
		panic(fmt.Sprintf("pvesim: %v", err))
	}
	return d
}

// Reports are what third parties did, or could not do, since SetThirdParties.
func (s *Sim) Reports() []thirdparty.Report { return s.server.ThirdParties().Reports() }
