package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
)

// refreshWithoutNode measures the refresh of VMs half of which are on a node that is not there: they have to stay in state, with a warning.
func (b *bench) refreshWithoutNode(ctx context.Context, s *side, n int) error {
	if s.who == whoPeer {
		return nil // it has no rule for that
	}
	sim, err := cluster(pvesim.Options{})
	if err != nil {
		return err
	}
	defer sim.Close()
	s.spread = true
	defer func() { s.spread = false }()
	if err := b.populate(ctx, sim, s, n); err != nil {
		return err
	}
	if err := b.planIsEmpty(ctx, s); err != nil {
		return err
	}
	before, err := s.instances()
	if err != nil {
		return err
	}
	sim.SetNode(away, false)
	if err := b.measure(ctx, sim, s, opOffline, n); err != nil {
		return err
	}
	after, err := s.instances()
	if err != nil {
		return err
	}
	if after != before || before < n {
		return fmt.Errorf("%d VMs were in state, and %d are after a refresh without node %s", before, after, away)
	}
	if s.provider && !strings.Contains(b.terraform.said, "Warning:") {
		return errors.New("no warning says that VMs could not be looked at:\n" + tail(b.terraform.said))
	}
	return s.forget()
}

// planIsEmpty makes sure that the VMs which were made from one are unchanged.
func (b *bench) planIsEmpty(ctx context.Context, s *side) error {
	_, err := b.terraform.run(ctx, s, commands[opPlan]...)
	return err
}

// instances is how many the state has.
func (s *side) instances() (int, error) {
	text, err := os.ReadFile(s.stateFile())
	if err != nil {
		return 0, err
	}
	var state struct {
		Resources []struct {
			Instances []json.RawMessage `json:"instances"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return 0, fmt.Errorf("%s: %w", s.stateFile(), err)
	}
	n := 0
	for _, r := range state.Resources {
		n += len(r.Instances)
	}
	return n, nil
}
