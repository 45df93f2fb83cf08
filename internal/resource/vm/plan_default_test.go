package vm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// with is a configuration with one more value in it. Groups that are not there are made.
func with(v tftypes.Value, by tftypes.Value, steps ...string) tftypes.Value {
	if len(steps) == 0 {
		return by
	}
	fields := map[string]tftypes.Value{}
	switch typ := v.Type().(type) {
	case tftypes.Object:
		for name, t := range typ.AttributeTypes {
			fields[name] = tftypes.NewValue(t, nil)
		}
	case tftypes.Map:
		fields[steps[0]] = tftypes.NewValue(typ.ElementType, nil)
	}
	if !v.IsNull() {
		had := map[string]tftypes.Value{}
		_ = v.As(&had)
		maps.Copy(fields, had)
	}
	fields[steps[0]] = with(fields[steps[0]], by, steps[1:]...)
	return tftypes.NewValue(v.Type(), fields)
}

// TestPlanTakesPVEsDefaultForAbsent: a configuration that names a default of PVE which the server does not say is no change of an imported VM.
// Of one that was made without it, it is none that the server hears of, and nothing is restarted for it.
func TestPlanTakesPVEsDefaultForAbsent(t *testing.T) {
	tried := 0
	for _, at := range slices.Sorted(maps.Keys(model.Rules())) {
		rule := model.Rules()[at]
		if rule.Default.Type() == nil {
			continue
		}
		tried++
		t.Run(at, func(t *testing.T) {
			plainly := plain()
			if strings.HasPrefix(at, "efi_disk") {
				plainly.EFIDisk = &model.EFIDisk{Storage: new("local-zfs")}
			}
			if strings.HasPrefix(at, "cpu.") {
				plainly.CPU = nil
			}
			f, server := obedient(t)
			s := newSession(t, f)
			f.adopt = func(string, int) (guest.Guest, error) { return guestOf(*server, ""), nil }
			family, rest, isSlot := strings.Cut(at, ".*.")
			steps := strings.Split(at, ".")
			if isSlot {
				steps = append([]string{family, map[string]string{"disks": "scsi0", "networks": "net0"}[family]}, strings.Split(rest, ".")...)
			}
			config := with(rawOf(t, s.v, plainly), rule.Default, steps...)

			s.apply(plainly)
			f.update = nil // fails the test when it is called
			planned, private := s.plan(config)
			s.quiet()
			s.change(config, planned, private)
			s.quiet()
			if planned, _ = s.plan(config); !planned.Equal(s.state) {
				t.Error("the plan is not empty afterwards")
			}

			s.adopt("100")
			s.refresh()
			if planned, _ = s.plan(config); strings.HasPrefix(at, "cloud_init") || planned.Equal(s.state) {
				return
			}
			t.Errorf("a change of an imported VM:\n%s\n%s", planned, s.state)
		})
	}
	if tried < 30 {
		t.Errorf("only %d defaults were tried", tried)
	}
}

// TestPlanOfOwnAttributesMakesNoRequest: what only the provider reads makes no request.
func TestPlanOfOwnAttributesMakesNoRequest(t *testing.T) {
	f, _ := obedient(t)
	s := newSession(t, f)
	config := plain()
	config.Agent = nil
	s.apply(config)
	f.update = nil
	config.OnDestroy = &model.OnDestroy{PowerOff: new("force")}
	config.Timeouts = &kit.Timeouts{Create: new("45m")}
	config.RebootPolicy, config.ShutdownTimeout, config.RemovedDisks = new("never"), new("90s"), new("destroy")
	config.OnFailure, config.OnOrphanedVolumes, config.Nodes = new("keep"), new("fail"), []string{"pve1"}
	s.apply(config)
	s.quiet()
	if planned, _ := s.plan(rawOf(t, s.v, config)); !planned.Equal(s.state) {
		t.Error("the plan is not empty afterwards")
	}
}
