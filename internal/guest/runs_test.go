package guest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// aMark is the mark of a run of another machine on the VM, signed with a secret that no identity here has.
func aMark() ownership.Mark {
	return ownership.Mark{Cluster: "pve1,pve2", VMID: theVM, Saga: "0123456789abcdef", Key: NoKey, User: "terraform@pve!prov",
		By: "qmcreate", Process: elsewhere}.Sign([]byte("guessed"))
}

// done waits for a task.
func (w *world) done(upid pve.UPID, err error) {
	w.t.Helper()
	if err == nil {
		_, err = w.s.api.Tasks().Wait(w.t.Context(), upid)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// made has PVE make the VM, as a create of a run elsewhere does, and says which mark it bears.
func (w *world) made(by string) ownership.Mark {
	w.t.Helper()
	w.change(func(all *state.World) { delete(all.Guests, theVM); all.AddBackup("pve1") })
	mark := w.s.NewMark("pve1,pve2", theVM)
	mark.By, mark.Process = by, elsewhere
	ctx, vmid := w.t.Context(), fmt.Sprint(theVM)
	switch by {
	case "qmclone":
		mark.Source = 9000
		mark = w.s.Sign(mark)
		w.done(w.s.api.QEMU("pve1", 9000).Clone(ctx, pve.Params{"newid": vmid, "full": "1", "description": mark.String()}))
	case "qmrestore":
		mark = w.s.Sign(mark)
		w.done(w.s.api.Node("pve1").CreateVM(ctx, pve.Params{"vmid": vmid, "unique": "1",
			"archive": "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst"}))
		if err := w.s.api.QEMU("pve1", theVM).UpdateConfig(ctx, pve.Params{"description": mark.String()}); err != nil {
			w.t.Fatal(err)
		}
	default:
		mark = w.s.Sign(mark)
		w.done(w.s.api.Node("pve1").CreateVM(ctx, pve.Params{"vmid": vmid, "name": "web", "scsi0": "local-zfs:1",
			"description": mark.String()}))
	}
	w.sim.Advance(20 * time.Second)
	return mark
}

// describe puts a description into the VM behind everybody's back.
func (w *world) describe(mark ownership.Mark) {
	w.vm(func(g *state.Guest) { g.Config["description"] = mark.String() })
}

// act lets a third party do something with the VM.
func (w *world) act(acts ...thirdparty.Act) {
	w.t.Helper()
	for _, act := range acts {
		if report := w.sim.ThirdParty(thirdparty.Order{Act: act, VMID: theVM}); !report.Done {
			w.t.Fatalf("%s was refused: %s", act, report.Why)
		}
		w.sim.Advance(20 * time.Second)
	}
}

// judge reads the marked VM and judges it. marked: it bears the mark of a create.
func (w *world) judge(by *Guests, vmid int) (v ownership.Verdict, marked bool) {
	w.t.Helper()
	resources := w.resources()
	listed, ok := resources.Guest(vmid)
	if !ok {
		w.t.Fatalf("no VM %d", vmid)
	}
	mark, config, marked := by.Unfinished(w.t.Context(), resources, listed)
	if marked {
		v = by.Judge(w.t.Context(), resources, listed.Node, mark, config.Values)
	}
	return v, marked
}

func otherToken(c pvesim.Credentials) string { return c.TokenNoAllocate }

// TestRunsJudge: a mark counts only with its signature, and with PVE's own record that this identity has made the VM
// within a day, and that no other user has worked with it since.
func TestRunsJudge(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(w *world, mark ownership.Mark)
		who     func(pvesim.Credentials) string
		owner   ownership.Owner
		whole   bool
		says    string
	}{
		"as its create left it": {owner: ownership.Ours, whole: true, says: "its mark is signed"},
		"forged": {happens: func(w *world, m ownership.Mark) { w.describe(m.Sign([]byte("guessed"))) },
			says: "not signed with the secret of terraform@pve!prov"},
		"forged by another identity": {happens: func(w *world, m ownership.Mark) { w.describe(w.as(rootToken).Sign(m)) }, says: "not signed"},
		"of another identity": {happens: func(w *world, _ ownership.Mark) { w.describe(w.as(rootToken).NewMark("pve1,pve2", theVM)) },
			says: "its mark is of root@pam!tf"},
		"tampered with": {happens: func(w *world, m ownership.Mark) { m.Renewed++; w.describe(m) }, says: "not signed"},
		"renewed": {happens: func(w *world, m ownership.Mark) { w.describe(w.s.Renewed(m)) }, owner: ownership.Ours,
			whole: true},
		"read by another token": {who: otherToken, says: "its mark is of terraform@pve!prov"},
		"read by another token of the user": {says: "its mark is of terraform@pve!prov",
			happens: func(w *world, _ ownership.Mark) {
				w.s = w.as(func(pvesim.Credentials) string { return "terraform@pve!lite=" + w.secret("terraform@pve!lite") })
			}},
		"another VM in its place": {happens: func(w *world, m ownership.Mark) {
			m.UUID = theUUID
			w.describe(w.s.Sign(m))
		}, owner: ownership.ThirdParty, says: "its mark is of a VM with the uuid " + theUUID},
		"with a snapshot": {happens: func(w *world, _ ownership.Mark) { w.act(thirdparty.Snapshot) }, says: "it has snapshots"},
		"with unread snapshots": {happens: func(w *world, _ ownership.Mark) { w.refuse("/nodes/{node}/qemu/{vmid}/snapshot") },
			says: "its snapshots cannot be read"},
		"rolled back, and the snapshot deleted": {happens: func(w *world, _ ownership.Mark) {
			w.act(thirdparty.Snapshot, thirdparty.Rollback)
			w.vm(func(g *state.Guest) { g.Snaps = nil; delete(g.Config, "parent") })
		}, owner: ownership.ThirdParty, says: "of thirdparty@pve has made it"},
		"restored from a backup of itself": {happens: func(w *world, _ ownership.Mark) {
			w.vm(func(g *state.Guest) { delete(g.Config, "protection") }) // of the template, which PVE does not restore over
			w.act(thirdparty.Backup, thirdparty.Restore)
		},
			owner: ownership.ThirdParty, says: "of thirdparty@pve has made it"},
		"backed up":       {happens: func(w *world, _ ownership.Mark) { w.act(thirdparty.Backup) }, owner: ownership.Ours, whole: true},
		"cloned":          {happens: func(w *world, _ ownership.Mark) { w.act(thirdparty.Clone) }, says: "has begun qmclone on it since"},
		"started":         {happens: func(w *world, _ ownership.Mark) { w.act(thirdparty.Start) }, says: "thirdparty@pve has begun qmstart on it since"},
		"migrated":        {happens: func(w *world, _ ownership.Mark) { w.act(thirdparty.Migrate) }, says: "has begun qmigrate on it since"},
		"rotated logs":    {happens: func(w *world, _ ownership.Mark) { w.change(func(all *state.World) { clear(all.Tasks) }) }, says: "not in PVE's task lists"},
		"a day later":     {happens: func(w *world, _ ownership.Mark) { w.sim.Advance(25 * time.Hour) }, says: "it was made 25h"},
		"a node is away":  {happens: func(w *world, _ ownership.Mark) { w.sim.SetNode("pve2", false) }, says: "another user may have made it"},
		"no time is told": {happens: func(w *world, _ ownership.Mark) { w.refuse("/nodes/{node}/time") }, says: "does not tell its time"},
		"without Sys.Audit": {happens: func(w *world, _ ownership.Mark) { w.withoutSysAudit() },
			says: "the tasks of other users on node pve1 cannot be seen without Sys.Audit on /nodes/pve1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, by := range []string{"qmcreate", "qmclone", "qmrestore"} {
				w := newWorld(t, nil)
				mark := w.made(by)
				if c.happens != nil {
					c.happens(w, mark)
				}
				who := w.s
				if c.who != nil {
					who = w.as(c.who)
				}
				before := string(w.sim.Snapshot())
				v, marked := w.judge(who, theVM)
				if !marked || v.Owner != c.owner || v.Whole != c.whole || !strings.Contains(v.Reason, c.says) {
					t.Errorf("%s: marked %t, %+v", by, marked, v)
				}
				if string(w.sim.Snapshot()) != before {
					t.Errorf("%s: a judgement has changed something", by)
				}
			}
		})
	}
}

// secret is that of a token.
func (w *world) secret(token string) (secret string) {
	w.change(func(all *state.World) { secret = all.Tokens[token].Secret })
	return secret
}

// withoutSysAudit takes from the identity what shows the tasks of others.
func (w *world) withoutSysAudit() {
	less := state.ACLEntry{Path: "/nodes", Subject: "terraform@pve!prov", Role: "PVEVMAdmin", Propagate: true}
	w.change(func(all *state.World) { all.ACL = append(all.ACL, less) })
}

// TestRunsJudgeCopies: a mark that was copied to another VM marks nothing there.
func TestRunsJudgeCopies(t *testing.T) {
	for name, act := range map[string]func(*world){
		"replayed on another VMID": func(w *world) {
			w.change(func(all *state.World) {
				all.Guests[8000].Config["description"] = all.Guests[theVM].Config["description"]
			})
		},
		"copied into a clone":              func(w *world) { w.act(thirdparty.Clone) },
		"restored to another VMID":         func(w *world) { w.act(thirdparty.Backup, thirdparty.RestoreAside) },
		"described by another user":        func(w *world) { w.act(thirdparty.Describe) },
		"damaged":                          func(w *world) { w.vm(func(g *state.Guest) { g.Config["description"] += "\nmine" }) },
		"of a container with the same id":  func(w *world) { w.vm(func(g *state.Guest) { g.Type = "lxc" }) },
		"restored from a backup of a user": func(w *world) { w.act(thirdparty.RestoreHis) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.made("qmcreate")
			act(w)
			w.sim.Advance(20 * time.Second)
			copies := 0
			for _, g := range w.resources().Guests() {
				if g.VMID == theVM && strings.Contains(name, "other VMID") || g.VMID == theVM && strings.HasPrefix(name, "copied") {
					continue // the original
				}
				copies++
				if v, marked := w.judge(w.s, g.VMID); marked {
					t.Errorf("VM %d: %+v", g.VMID, v)
				}
			}
			if copies < 3 {
				t.Errorf("%d guests were looked at", copies)
			}
		})
	}
}

// TestRunsJudgeAsksNothingOfForgeries: what only its signature tells is told without a request.
func TestRunsJudgeAsksNothingOfForgeries(t *testing.T) {
	w := newWorld(t, nil)
	mark := w.made("qmcreate")
	resources := w.resources()
	w.sim.ResetOps()
	if v := w.s.Judge(t.Context(), resources, "pve1", mark.Sign(nil), nil); v.Owner != ownership.Unknown {
		t.Errorf("%+v", v)
	}
	w.mustHaveAsked("a forgery")
}

// TestRunsJudgeUnderway: a task that still makes the VM is named, so that its end can be awaited.
func TestRunsJudgeUnderway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, nil)
		w.change(func(all *state.World) { delete(all.Guests, theVM) })
		w.sim.SetTaskTime(time.Minute)
		mark := w.s.NewMark("pve1,pve2", theVM)
		upid, err := w.s.api.Node("pve1").CreateVM(t.Context(), pve.Params{"vmid": fmt.Sprint(theVM), "description": mark.String()})
		if err != nil {
			t.Fatal(err)
		}
		v := w.s.Judge(t.Context(), w.resources(), "pve1", mark, map[string]string{})
		if v.Owner != ownership.Ours || v.Whole || v.Maker.UPID != string(upid) || !v.Maker.Running {
			t.Errorf("%+v", v)
		}
		w.done(upid, nil)
		if v = w.s.Judge(t.Context(), w.resources(), "pve1", mark, nil); v.Owner != ownership.Ours || !v.Whole || v.Maker.Running {
			t.Errorf("at its end: %+v", v)
		}
	})
}

// TestRunsSign: a mark is genuine for its identity, in whichever process, and for no other.
func TestRunsSign(t *testing.T) {
	w := newWorld(t, nil)
	mark := w.s.NewMark("pve1,pve2", theVM)
	if mark.User != "terraform@pve!prov" || mark.Process != w.s.Process || mark.By != "qmcreate" || mark.Key != NoKey {
		t.Errorf("%+v", mark)
	}
	if again := w.s.NewMark("pve1,pve2", theVM); again.Saga == mark.Saga {
		t.Errorf("two runs are both %s", mark.Saga)
	}
	if back, ok := ownership.Parse(mark.String()); !ok || back != mark || !w.s.IsGenuine(back) || !w.as(token).IsGenuine(back) {
		t.Errorf("%q reads back as %+v", mark, back)
	}
	for range 3 {
		was := mark
		if mark = w.s.Renewed(mark); !w.s.IsGenuine(mark) || mark.Renewed != was.Renewed+1 || mark.Saga != was.Saga || mark == was {
			t.Errorf("%+v is renewed as %+v", was, mark)
		}
	}
	mark.Kept = true
	if w.s.IsGenuine(mark) || !w.s.IsGenuine(w.s.Sign(mark)) {
		t.Error("a change counts without being signed, or not at all")
	}
	for name, other := range map[string]*Guests{"another token": w.as(otherToken), "root's token": w.as(rootToken), "a password": w.asRoot()} {
		if own := other.NewMark("pve1,pve2", theVM); !other.IsGenuine(own) || w.s.IsGenuine(own) || other.IsGenuine(w.s.Sign(mark)) {
			t.Errorf("%s: %+v", name, own)
		}
		stolen := w.s.NewMark("pve1,pve2", theVM)
		if stolen = other.Sign(stolen); w.s.IsGenuine(stolen) || other.IsGenuine(stolen) {
			t.Errorf("%s signs for another identity", name)
		}
	}
	// A token that was made again under its name has another secret.
	old := w.s.Sign(mark)
	w.change(func(all *state.World) {
		all.Tokens["terraform@pve!prov"].Secret = "00000000-1111-2222-3333-444444444444"
	})
	if w.as(token).IsGenuine(old) {
		t.Error("a mark of the token before")
	}
}

// asRoot are the Guests of root, who logs in with a password, in a process of its own.
func (w *world) asRoot() *Guests {
	w.t.Helper()
	here, cred := clock.Client{Cluster: w.sim.World().Clock}, w.sim.Credentials()
	api, err := pve.New(pve.Config{Endpoint: w.sim.Endpoint(), CACertificate: w.sim.CAPEM(), DialTLSContext: w.sim.DialTLSContext, Clock: here,
		Username: cred.RootUsername, Password: cred.RootPassword})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(api.Close)
	return New(request.New(api, here))
}

// TestRunsOfAPassword: an identity without a token recognizes what was begun on this host, in this boot.
func TestRunsOfAPassword(t *testing.T) {
	w := newWorld(t, nil)
	w.s = w.asRoot()
	mark := w.made("qmcreate")
	if v, marked := w.judge(w.asRoot(), theVM); !marked || v.Owner != ownership.Ours || !w.asRoot().IsGenuine(mark) {
		t.Errorf("marked %t, %+v", marked, v)
	}
	if w.s.api.Key("x") != nil {
		t.Error("a key was made of a password")
	}
}

// TestMarkOf: the removal of a failed create's leftovers goes on under a mark that proves the create's VM.
func TestMarkOf(t *testing.T) {
	w := newWorld(t, nil)
	made := w.s.NewMark("pve1,pve2", theVM)
	config := map[string]string{"description": made.String()}
	proof := &Proof{VMID: theVM, Cluster: made.Cluster, Saga: made.Saga}
	for restored, by := range map[bool]string{false: "qmcreate", true: "qmrestore"} {
		proof.Restored = restored
		if mark := w.s.MarkOf(proof); !mark.Proves(theVM, config) || !w.s.IsGenuine(mark) || mark.By != by || mark.Process != w.s.Process {
			t.Errorf("restored %t: %+v", restored, mark)
		}
	}
	proof.Saga = "fedcba9876543210"
	if w.s.MarkOf(proof).Proves(theVM, config) {
		t.Error("it proves another run's VM")
	}
}

// TestIsPlaceholder: a VM with disks or network devices is none, whatever its description says.
func TestIsPlaceholder(t *testing.T) {
	mark, other := aMark(), aMark()
	other.VMID = 401
	for name, c := range map[string]struct {
		config map[string]string
		want   bool
	}{
		"empty":           {map[string]string{"description": mark.String(), "smbios1": "uuid=a", "meta": "ctime=1"}, true},
		"with a leftover": {map[string]string{"description": mark.String(), "unused0": "local-zfs:vm-400-disk-0"}, true},
		"with a disk":     {map[string]string{"description": mark.String(), "scsi0": "local-zfs:vm-400-disk-0,size=1G"}, false},
		"with a network":  {map[string]string{"description": mark.String(), "net0": "virtio=BC:24:11:00:00:01"}, false},
		"of another id":   {map[string]string{"description": other.String()}, false},
		"of its user":     {map[string]string{"description": "web"}, false},
	} {
		if got := isPlaceholder(theVM, c.config); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestUnfinished: the mark of this cluster, for this id, on a virtual machine that can be read.
func TestUnfinished(t *testing.T) {
	w := newWorld(t, map[string]string{"description": aMark().String()})
	resources := w.resources()
	ours, _ := resources.Guest(theVM)
	if mark, config, ok := w.s.Unfinished(t.Context(), resources, ours); !ok || mark != aMark() || config.Values["name"] != "web" {
		t.Errorf("%+v, %v, %t", mark, config, ok)
	}
	for vmid, what := range map[int]string{8000: "without a mark", 8100: "a container"} {
		other, _ := resources.Guest(vmid)
		if _, _, ok := w.s.Unfinished(t.Context(), resources, other); ok {
			t.Errorf("%s", what)
		}
	}
	if _, _, ok := w.s.Unfinished(t.Context(), resources[:0], ours); ok {
		t.Error("of another cluster")
	}
	ours.Node = "pve2"
	if _, _, ok := w.s.Unfinished(t.Context(), resources, ours); ok {
		t.Error("what cannot be read")
	}
}

// TestNow: it is the server's time, and this machine's before the server has told it.
func TestNow(t *testing.T) {
	w := newWorld(t, nil)
	here := w.s.clock.Now()
	if got := w.s.Now(); got.Before(here) {
		t.Errorf("before an answer: %s, want %s", got, here)
	}
	w.resources()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		w.s.Runs.clock = &steps{now: here.Add(ahead)}
		if got := w.s.Now().Sub(here).Abs(); got > time.Minute {
			t.Errorf("this machine is %s ahead, and it is %s off", ahead, got)
		}
	}
}

// TestTimesOfNodesAskedOneAfterTheOther: a node that is asked later than another one does not make its tasks older.
func TestTimesOfNodesAskedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	ticks := clock.NewManual(time.Unix(1_800_000_000, 0))
	r := &Runs{clock: clock.Client{Cluster: ticks}}
	began := r.clock.Now()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		ticks.Advance(7 * time.Second)
		if is, want := r.at(began, r.clock.Now().Add(ahead)), began.Add(ahead).Unix(); is != want {
			t.Errorf("a clock that is %s ahead: %d, want %d", ahead, is, want)
		}
	}
}
