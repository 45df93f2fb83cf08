package provision

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestJudge: whose a configuration is, by stamp, uuid, lock and the end of our task.
func TestJudge(t *testing.T) {
	mark := newStamp("pve1", 100, time.Unix(0, 0))
	other := newStamp("pve1", 100, time.Unix(0, 0))
	complete := map[string]string{"smbios1": "uuid=aaa", "meta": "ctime=1", "description": "theirs"}
	cases := []struct {
		name   string
		config map[string]string
		how    ending
		lost   bool
		want   found
		unsure bool
	}{
		{"our stamp", map[string]string{"description": mark.String()}, tidy, false, ours, false},
		{"another transaction's stamp", map[string]string{"description": other.String()}, killed, true, stranger, false},
		{"somebody's", complete, killed, true, stranger, false},
		{"our uuid without a stamp", map[string]string{"smbios1": "uuid=bbb", "meta": "ctime=1"}, tidy, false, ours, false},
		{"locked, our task was killed", map[string]string{"lock": "create"}, killed, false, ours, false},
		{"locked, our task cleaned up", map[string]string{"lock": "create"}, tidy, false, stranger, false},
		{"locked, PVE forgot our task", map[string]string{"lock": "create"}, untold, false, nobody, true},
		{"locked, our answer was lost", map[string]string{"lock": "clone"}, tidy, true, nobody, true},
		{"locked for a backup", map[string]string{"lock": "backup", "smbios1": "uuid=aaa"}, killed, true, stranger, false},
		{"unlocked by hand, nothing else in it", map[string]string{}, killed, false, ours, false},
	}
	for _, c := range cases {
		r := &removal{Target: Target{vmid: 100, stamp: mark, owns: Identity{UUID: "bbb"}.proves, nodes: []string{"pve1"}}}
		if c.lost {
			r.lost = &lostJob{}
		}
		_, _, who, err := r.judge("pve1", c.config, c.how)
		if who != c.want || (err != nil) != c.unsure {
			t.Errorf("%s: got %d, %v", c.name, who, err)
		}
		if named := len(r.residues(nil)) > 0; named != (c.want == ours || c.unsure) {
			t.Errorf("%s: named as left: %t", c.name, named)
		}
	}
}

// TestCommandsOfResidues: none breaks into what a task is at work on, and one for a VM that was not seen looks first.
func TestCommandsOfResidues(t *testing.T) {
	mark := newStamp("pve1", 100, time.Unix(0, 0))
	seen := removal{Target: Target{vmid: 100, stamp: mark, nodes: []string{"pve1"}}, at: "pve1", looked: true}
	for lock, want := range map[string]string{
		"":       "qm destroy 100 --purge",
		"backup": "qm destroy 100 --purge",
		"create": "qm unlock 100 && qm destroy 100 --purge",
	} {
		r := seen
		r.lock = lock
		if got := r.residues(nil)[0].Command; got != want {
			t.Errorf("lock %q: %s", lock, got)
		}
	}
	unseen := removal{Target: Target{vmid: 100, stamp: mark, nodes: []string{"pve1"}, fence: &fence{node: "pve1"}}}
	left := unseen.residues(errors.New("connection refused"))
	if len(left) != 1 || !strings.HasPrefix(left[0].Command, "grep -q "+mark.TX) || !strings.Contains(left[0].Reason, "connection refused") {
		t.Errorf("not seen: %+v", left)
	}
	unseen.hidden, unseen.strays = true, []string{"nfs:100/vm-100-disk-0.raw"}
	left = unseen.residues(nil)
	if len(left) != 1 || left[0].Kind != "volume" || !strings.HasPrefix(left[0].Command, "grep -r ") {
		t.Errorf("somebody who cannot be seen has the id: %+v", left)
	}
}

func TestEndingOf(t *testing.T) {
	for exit, want := range map[string]ending{"OK": tidy, "WARNINGS: 1": tidy, "unable to create VM 100 - no space": tidy, "received interrupt": tidy,
		"unexpected status": killed, "": untold, "unable to read tail (got 0 bytes)": untold, "unable to open file - No such file": untold} {
		if got := endingOf("UPID:pve1:00000001:00000001:00000001:qmcreate:100:root@pam:", exit); got != want {
			t.Errorf("%q: got %d, want %d", exit, got, want)
		}
	}
}

func TestIdentityProves(t *testing.T) {
	if (Identity{}).proves(map[string]string{}) || (Identity{CTime: "1"}).proves(map[string]string{"meta": "ctime=1"}) {
		t.Error("nothing, or the creation time, proves a VM")
	}
	if (Identity{UUID: "aaa"}).Matches(Identity{}) {
		t.Error("a VM without uuid and creation time is taken for one with a uuid")
	}
}

func TestPatience(t *testing.T) {
	broken := &pve.Error{Kind: pve.Ambiguous, Err: errors.New("connection reset by peer")}
	if cut, slow := patience(broken), patience(&pve.Error{Kind: pve.Ambiguous, Status: 596}); cut >= slow {
		t.Errorf("%d lookups after a broken line, %d behind a timeout", cut, slow)
	}
}

// TestKnownTasksAnswerOneRequest: a search never gives a task that answered another request of this process.
func TestKnownTasksAnswerOneRequest(t *testing.T) {
	s := New(nil, nil, nil)
	const upid = pve.UPID("UPID:pve1:00000001:00000001:00000001:qmclone:9000:root@pam:")
	if s.isKnown(upid) {
		t.Error("known before it was seen")
	}
	if s.known(upid); !s.isKnown(upid) {
		t.Error("not known")
	}
}

// TestFencedStorages: those that the configuration names are fenced also where no listing shows them.
func TestFencedStorages(t *testing.T) {
	r := CreateRequest{Clone: &Clone{Storage: "c"}, Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "a"}, "scsi1": {}},
		EFIDisk: &vm.EFIDisk{Storage: "hidden"}, TPMState: &vm.TPMState{Storage: "a"}}}
	if got := strings.Join(r.withTargets([]string{"a", "b"}), " "); got != "a b c hidden" {
		t.Errorf("got %q", got)
	}
}
