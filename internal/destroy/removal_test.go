package destroy

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// markOf is the mark of a run on VM 100.
func markOf(run string) ownership.Mark {
	return ownership.Mark{Cluster: "pve1", VMID: 100, Saga: run, Key: guest.NoKey, User: "terraform@pve!prov",
		By: "qmcreate"}.Sign([]byte("a secret"))
}

// TestJudge: whose a configuration is, by mark, uuid, lock and the end of our task.
func TestJudge(t *testing.T) {
	mark, other := markOf("0123456789abcdef"), markOf("fedcba9876543210")
	complete := map[string]string{"smbios1": "uuid=aaa", "meta": "ctime=1", "description": "theirs"}
	cases := []struct {
		name   string
		config map[string]string
		how    ending
		lost   bool
		want   guest.Owner
		unsure bool
		digest string // "" = as it was right after the kill
	}{
		{"our mark", map[string]string{"description": mark.String()}, cleanedUp, false, guest.Ours, false, ""},
		{"another saga's mark", map[string]string{"description": other.String()}, killed, true, guest.ThirdParty, false, ""},
		{"another user's", complete, killed, true, guest.ThirdParty, false, ""},
		{"our uuid without a mark", map[string]string{"smbios1": "uuid=bbb", "meta": "ctime=1"},
			cleanedUp, false, guest.Ours, false, ""},
		{"locked, our task was killed", map[string]string{"lock": "create"}, killed, false, guest.Ours, false, ""},
		{"locked, our task cleaned up", map[string]string{"lock": "create"}, cleanedUp, false, guest.ThirdParty, false, ""},
		{"locked, PVE forgot our task", map[string]string{"lock": "create"}, unknownEnd, false, guest.NoGuest, true, ""},
		{"locked, our answer was lost", map[string]string{"lock": "clone"}, cleanedUp, true, guest.NoGuest, true, ""},
		{"locked for a backup", map[string]string{"lock": "backup", "smbios1": "uuid=aaa"}, killed, true, guest.ThirdParty, false, ""},
		{"as our killed task left it, but unlocked", map[string]string{}, killed, false, guest.Ours, false, ""},
		{"locked, not as our killed task left it", map[string]string{"lock": "create"}, killed, false, guest.NoGuest, true, "other"},
		{"locked by another task since", map[string]string{"lock": "backup"}, killed, false, guest.NoGuest, true, "other"},
		{"unlocked by hand, nothing else in it", map[string]string{}, killed, false, guest.NoGuest, true, "other"},
	}
	for _, c := range cases {
		r := (&Destroyer{clock: clock.Client{Cluster: clock.Real{}}}).newRemoval(Target{VMID: 100, HalfMade: NewHalfMade("seen", nil), Mark: mark,
			Owns: guest.Identity{UUID: "bbb"}.Proves, Nodes: []string{"pve1"}}, policy{})
		if c.lost {
			r.Lost = &request.Lost{}
		}
		found, err := r.recognize("pve1", pve.GuestConfig{Values: c.config, Digest: cmp.Or(c.digest, "seen")}, c.how)
		r.view = found
		who := found.owner
		if who != c.want || (err != nil) != c.unsure {
			t.Errorf("%s: got %d, %v", c.name, who, err)
		}
		if named := len((&report{removal: r}).leftovers(nil)) > 0; named != (c.want == guest.Ours || c.unsure) {
			t.Errorf("%s: named as left: %t", c.name, named)
		}
	}
}

// TestCommandsOfLeftovers: none breaks into what a task is at work on. A VM that was not seen, or may be another's, is
// only shown: it may be a third party's by now, or have volumes of others that a rescan has attached.
func TestCommandsOfLeftovers(t *testing.T) {
	mark := markOf("0123456789abcdef")
	of := func(v view) *report {
		r := (&Destroyer{}).newRemoval(Target{VMID: 100, Mark: mark, Nodes: []string{"pve1"}, Baseline: &guest.Baseline{Node: "pve1"},
			Tasks: &request.Tasks{}}, policy{})
		r.view = v
		return &report{removal: r}
	}
	for lock, want := range map[string]string{
		"":       "qm destroy 100",
		"backup": "qm destroy 100",
		"create": "qm unlock 100 && qm destroy 100",
	} {
		ours := view{verdict: verdict{owner: guest.Ours}, node: "pve1", answered: true, config: pve.GuestConfig{Values: map[string]string{"lock": lock}}}
		if got := of(ours).leftovers(nil)[0].Command; got != want {
			t.Errorf("lock %q: %s", lock, got)
		}
		const uuid = "0b2f7a3c-6f0e-4f59-9d39-3f0a4b8d9e01"
		ours.config.Values["smbios1"] = "uuid=" + strings.ToUpper(uuid)
		if got := of(ours).leftovers(nil)[0].Command; got != "grep -qiF -- "+uuid+" /etc/pve/nodes/pve1/qemu-server/100.conf && "+want {
			t.Errorf("with a uuid, lock %q: %s", lock, got)
		}
		ours.config.Values["description"] = mark.String()
		if got := of(ours).leftovers(nil)[0].Command; got != "grep -qiF -- "+mark.Saga+" /etc/pve/nodes/pve1/qemu-server/100.conf && "+want {
			t.Errorf("with its mark, lock %q: %s", lock, got)
		}
	}
	doubted := view{verdict: verdict{unsure: true}, node: "pve1", config: pve.GuestConfig{Values: map[string]string{"lock": "create"}}}
	if got := of(doubted).leftovers(nil)[0].Command; got != "qm config 100 && pvenode task list --vmid 100 --source all" {
		t.Errorf("in doubt: %s", got)
	}
	left := of(view{}).leftovers(errors.New("connection refused"))
	if len(left) != 1 || left[0].Command != "qm config 100" || !strings.Contains(left[0].Reason, "connection refused") {
		t.Errorf("not seen: %+v", left)
	}
	hidden := of(view{hidden: true})
	hidden.left = []string{"nfs:100/vm-100-disk-0.raw"}
	left = hidden.leftovers(nil)
	if len(left) != 1 || left[0].Kind != "volume" || !strings.HasPrefix(left[0].Command, "grep -rF -- ") {
		t.Errorf("a hidden guest has the VMID: %+v", left)
	}
	hidden.tasks.made = true
	if left = hidden.leftovers(nil); len(left) != 2 || left[0].Kind != "guest" || left[0].Command != "qm config 100" {
		t.Errorf("the hidden guest may be ours: %+v", left)
	}
}

// TestLawCommandsOfUnusualLeftovers: a volume whose name a shell would take apart has no command, whatever is known of it.
func TestLawCommandsOfUnusualLeftovers(t *testing.T) {
	mark := markOf("0123456789abcdef")
	for _, name := range []string{"local:100/vm-100-x;id>${PWD}PWNED;#.raw", "local:$(id)", "local:'a'", "local:a b", "local:ü", "local:a\nb"} {
		for what, alter := range map[string]func(*report){
			"seen":        func(*report) {},
			"hidden":      func(r *report) { r.view.hidden = true },
			"use unknown": func(r *report) { r.useUnknown = true },
			"not seen":    func(r *report) { r.partly = true },
		} {
			removal := (&Destroyer{}).newRemoval(Target{VMID: 100, Mark: mark, Nodes: []string{"pve1"}, Baseline: &guest.Baseline{Node: "pve1"}}, policy{})
			r := &report{removal: removal}
			alter(r)
			if left := r.volume(name, "it stays"); left.Command != "" || left.ID != name {
				t.Errorf("%q, %s: %+v", name, what, left)
			}
		}
	}
}

func TestEndingOf(t *testing.T) {
	for exit, want := range map[string]ending{"OK": cleanedUp, "WARNINGS: 1": cleanedUp, "unable to create VM 100 - no space": cleanedUp, "received interrupt": cleanedUp,
		"unexpected status": killed, "": unknownEnd, "unable to read tail (got 0 bytes)": unknownEnd, "unable to open file - No such file": unknownEnd} {
		if got := endingOf("UPID:pve1:00000001:00000001:00000001:qmcreate:100:root@pam:", exit); got != want {
			t.Errorf("%q: got %d, want %d", exit, got, want)
		}
	}
}

// TestNothingIsNamedThatIsGone: PVE refuses to destroy a VM, and an administrator removes it by hand, after whichever
// answer. Only what he removes after the last one may be named.
func TestNothingIsNamedThatIsGone(t *testing.T) {
	named, unnamed := 0, 0
	for at := 1; ; at++ {
		r := newRig(t, asToken)
		target := r.uncommitted()
		r.vm(301)
		r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "DELETE", Path: theGuest}, Phase: fault.Before, Times: -1, Reason: "no"}})
		var asked []string
		r.answered = func(method, path string) {
			if asked = append(asked, method+" "+path); len(asked) == at {
				r.change(func(w *state.World) {
					delete(w.Guests, 300)
					_, _ = w.Free("pve1", "local-zfs", strings.TrimPrefix(contested, "local-zfs:"))
				})
			}
		}
		err := r.s.Remove(t.Context(), target)
		if len(asked) < at {
			break
		}
		var left *saga.LeftError
		switch is, kept := r.has(300, contested); {
		case is || kept:
			t.Fatalf("VM %t, volume %t", is, kept)
		case !errors.As(err, &left):
			unnamed++
		case len(asked) > at:
			t.Errorf("removed after %s, %d requests before the end: left %+v", asked[at-1], len(asked)-at, left.Left)
		default:
			named++
		}
	}
	if named != 1 || unnamed < 6 {
		t.Errorf("it was named %d times, and not %d times", named, unnamed)
	}
}

// TestRemoveSparesALateCommit: a create was taken for dead, and is not. Whenever its commit comes before
// the last look at the configuration, its VM stays.
func TestRemoveSparesALateCommit(t *testing.T) {
	spared := 0
	for at := 1; ; at++ {
		r := newRig(t, asToken)
		r.vm(300)
		mark := r.s.guests.NewMark("pve1,pve2", 300)
		r.change(func(w *state.World) { w.Guests[300].Config["description"] = mark.String() })
		f := guest.OwnBaseline("pve1", 300, []string{contested})
		var asked []string
		committed := false
		r.answered = func(method, path string) {
			if asked = append(asked, method+" "+path); len(asked) == at {
				r.change(func(w *state.World) {
					if g := w.Guests[300]; g != nil {
						g.Config["description"], committed = "complete", true
					}
				})
			}
		}
		err := r.s.Remove(t.Context(), Target{VMID: 300, Nodes: []string{"pve1"}, Baseline: f, Tasks: &request.Tasks{}, Mark: mark, HalfMade: NewHalfMade("", nil)})
		if !committed {
			break
		}
		is, kept := r.has(300, contested)
		last := len(asked) > at && strings.HasPrefix(asked[at], http.MethodDelete) // nothing was asked any more before the request was sent
		if !last && (!is || !kept) {
			t.Errorf("committed after %s: VM %t, disk %t, %v", asked[at-1], is, kept, err)
		}
		if is {
			spared++
		}
	}
	if spared < 2 {
		t.Errorf("it was spared %d times", spared)
	}
}
