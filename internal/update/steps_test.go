package update

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// TestStepsAreDocumented: the page has the table, in its order and in its words.
func TestStepsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/update.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(page)
	for _, step := range (&update{}).steps(&results{}) {
		row := "| " + strings.ReplaceAll(step.Name, "VM %d", "the VM") + " | " + step.Why + " |\n"
		_, after, found := strings.Cut(rest, row)
		if !found {
			t.Fatalf("docs/design/update.md lacks, in its place, the row\n%s", row)
		}
		rest = after
	}
}

// TestStepIsNamed: an error says which step it is of, with PVE's words.
func TestStepIsNamed(t *testing.T) {
	w := newWorld(t, nil)
	r := w.request()
	r.Planned.CPU.Cores = new(int64(2))
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config"},
		Phase: fault.Before, Reason: "no more ink"}})
	g, _, err := w.update(r)
	var failed *saga.StepError
	if !errors.As(err, &failed) || failed.Step != "change options of VM 400" ||
		!strings.Contains(err.Error(), "no more ink") {
		t.Errorf("got %v", err)
	}
	if g.VMID != theVM {
		t.Errorf("what is true is not told: %+v", g)
	}
}

// TestNothingToDo: an update that finds everything as planned sends nothing.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t, nil)
	if _, warnings, err := w.update(w.request()); err != nil || len(warnings) > 0 {
		t.Errorf("%v %v", warnings, err)
	}
	if writes := w.writes(); len(writes) > 0 {
		t.Errorf("sent %v", writes)
	}
}

// TestStepIsLogged: the log says which steps have sent something.
func TestStepIsLogged(t *testing.T) {
	w := newWorld(t, nil)
	var said []string
	w.changer.jobs.Log = func(_ context.Context, message string, _ map[string]string) { said = append(said, message) }
	r := w.request()
	r.Planned.CPU.Cores = new(int64(2))
	if _, _, err := w.update(r); err != nil || !slices.Equal(said, []string{"change options of VM 400"}) {
		t.Errorf("%v, the log says %q", err, said)
	}
}
