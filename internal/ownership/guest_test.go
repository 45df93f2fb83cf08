package ownership

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	me       = "terraform@pve!ci"
	neighbor = "other@pve"
	theVM    = 400
	theUUID  = "aaaaaaaa-2222-3333-4444-000000000400"
	source   = 9000
)

func theKey() []byte { return []byte("the secret of the token") }

// making is how a guest was made: by which task, whether its mark knows the task, and how far the clock of node pve2 is
// ahead of that of pve1.
type making struct {
	by    string
	known bool
	ahead time.Duration
}

func (m making) String() string {
	return fmt.Sprintf("%s, task known %t, pve2 ahead by %s", m.by, m.known, m.ahead)
}

// makings are all ways that the table is crossed with.
func makings() (all []making) {
	for _, by := range []string{"qmcreate", "qmclone", "qmrestore"} {
		for _, known := range []bool{true, false} {
			for _, ahead := range []time.Duration{0, 3 * time.Minute, -3 * time.Minute, time.Hour, -time.Hour} {
				all = append(all, making{by, known, ahead})
			}
		}
	}
	return all
}

// facts are those of a guest that our create has left, ten minutes old.
type facts struct {
	Guest
	making
}

func factsOf(m making) *facts {
	now := int64(1_800_000_000)
	f := &facts{making: m, Guest: Guest{VMID: theVM, Cluster: "pve1,pve2", Identity: me, Marked: true, UUID: theUUID,
		Clocks: map[string]int64{"pve1": now, "pve2": now + int64(m.ahead/time.Second)}}}
	f.Mark = Mark{Cluster: "pve1,pve2", VMID: theVM, Saga: "0123456789abcdef", Key: strings.Repeat("ab", 16), User: me,
		By: m.by, Process: "host 0123456789abcdef pid:[1] 1 2", UUID: theUUID}
	if m.by == "qmclone" {
		f.Mark.Source = source
	}
	maker := f.add(m.by, f.makerID(), me, "pve1", 10*time.Minute)
	if m.known {
		f.Mark.Task = maker.UPID
	}
	return f
}

// makerID is the VMID under which PVE lists the task that makes the guest.
func (f *facts) makerID() int {
	if f.by == "qmclone" {
		return source
	}
	return theVM
}

// add has a task begin so long ago, which has ended well.
func (f *facts) add(typ string, id int, user, node string, ago time.Duration) *Task {
	start := f.Clocks[node] - int64(ago/time.Second)
	f.Tasks = append(f.Tasks, Task{UPID: fmt.Sprintf("UPID:%s:%08X:00000001:%08X:%s:%d:%s:", node, len(f.Tasks), start, typ,
		id, user), Type: typ, ID: fmt.Sprint(id), User: user, Node: node, Start: start, Well: true})
	return &f.Tasks[len(f.Tasks)-1]
}

// judged is the verdict on the guest as it is now.
func (f *facts) judged() Verdict {
	f.Genuine = f.Mark.User == f.Identity && f.Mark.Verify(theKey())
	return Judge(f.Guest)
}

// row is one row of the table.
type row struct {
	name    string
	happens func(*facts)
	forged  bool // happens after the mark was signed
	owner   Owner
	whole   bool
	says    string
	only    func(making) bool // of all makings, nil for all
}

func clones(m making) bool      { return m.by == "qmclone" }
func namesGuest(m making) bool  { return m.by != "qmclone" }
func unknownTask(m making) bool { return m.by == "qmclone" && !m.known }
func knownTask(m making) bool   { return !unknownTask(m) }

// markRows are what the mark alone tells.
func markRows() []row {
	rows := []row{
		{name: "as its create left it", happens: func(*facts) {}, owner: Ours, whole: true, says: "its mark is signed, and task UPID:"},
		{name: "no mark", happens: func(f *facts) { f.Marked = false }, owner: ThirdParty, says: "bears no ownership mark"},
		{name: "copied from another VM", happens: func(f *facts) { f.VMID = 401 }, owner: ThirdParty, says: "copied from VM 400"},
		{name: "copied from another cluster", happens: func(f *facts) { f.Cluster = "pve9" }, owner: ThirdParty,
			says: "copied from another cluster, of the nodes pve1,pve2"},
		{name: "of another user", happens: func(f *facts) { f.Mark.User = neighbor }, says: "its mark is of " + neighbor},
		{name: "of another token", happens: func(f *facts) { f.Mark.User = "terraform@pve!cd" }, says: "its mark is of terraform@pve!cd"},
		{name: "of the token's user", happens: func(f *facts) { f.Mark.User = "terraform@pve" }, says: "only that identity can tell"},
		{name: "read by another token", happens: func(f *facts) { f.Identity = "terraform@pve!cd" }, says: "its mark is of " + me},
		{name: "unsigned", happens: func(f *facts) { f.Mark.Signature = "" }, forged: true, says: "not signed with the secret of " + me},
		{name: "signed with another key", happens: func(f *facts) { f.Mark = f.Mark.Sign([]byte("guessed")) }, forged: true,
			says: "not signed with the secret of"},
		{name: "another VM with its VMID", happens: func(f *facts) { f.UUID = strings.ReplaceAll(theUUID, "a", "b") }, owner: ThirdParty,
			says: "and it has the uuid bbbbbbbb-"},
		{name: "a VM without a uuid", happens: func(f *facts) { f.UUID = "" }, owner: ThirdParty, says: "its mark is of a VM with the uuid"},
		{name: "its uuid in capital letters", happens: func(f *facts) { f.UUID = strings.ToUpper(theUUID) }, owner: Ours, whole: true},
		{name: "killed before it knew the uuid", happens: func(f *facts) { f.Mark.UUID = "" }, owner: Ours, whole: true},
		{name: "renewed", happens: func(f *facts) { f.Mark.Renewed = 7 }, owner: Ours, whole: true},
		{name: "kept", happens: func(f *facts) { f.Mark.Kept = true }, owner: Ours, whole: true},
		{name: "with snapshots", happens: func(f *facts) { f.Snapshots = true }, says: "has snapshots"},
		{name: "not all tasks are seen", happens: func(f *facts) { f.Unseen = "no Sys.Audit" }, says: "may have made it: no Sys.Audit"},
	}
	for name, change := range map[string]func(*Mark){
		"transaction": func(m *Mark) { m.Saga = "fedcba9876543210" }, "key": func(m *Mark) { m.Key = strings.Repeat("cd", 16) },
		"by":     func(m *Mark) { m.By = map[bool]string{true: "qmclone", false: "qmcreate"}[m.By == "qmcreate"] },
		"source": func(m *Mark) { m.Source++ }, "source uuid": func(m *Mark) { m.SourceUUID = theUUID }, "process": func(m *Mark) { m.Process = "" }, "renewed": func(m *Mark) { m.Renewed++ },
		"kept": func(m *Mark) { m.Kept = true }, "uuid": func(m *Mark) { m.UUID = strings.ToUpper(m.UUID) },
		"no uuid": func(m *Mark) { m.UUID = "" }, "task": func(m *Mark) { m.Task += "x" },
		"signature": func(m *Mark) { m.Signature = strings.Repeat("0", 64) },
	} {
		rows = append(rows, row{name: "tampered with: " + name, happens: func(f *facts) { change(&f.Mark) }, forged: true,
			says: "anybody who may edit a description can write one"})
	}
	// A forger who writes the facts of another guest, cluster or identity into a mark cannot sign it.
	return append(rows, row{name: "tampered with: vmid", forged: true, says: "not signed",
		happens: func(f *facts) { f.VMID, f.Mark.VMID = 401, 401 }}, row{name: "tampered with: cluster", forged: true, says: "not signed",
		happens: func(f *facts) { f.Cluster, f.Mark.Cluster = "pve9", "pve9" }}, row{name: "tampered with: user", forged: true,
		says: "not signed", happens: func(f *facts) { f.Identity, f.Mark.User = neighbor, neighbor }})
}

// makerRows are about the task that made the guest.
func makerRows() []row {
	later := func(typ, user string) func(*facts) {
		return func(f *facts) { f.add(typ, theVM, user, "pve2", time.Minute) }
	}
	const gone = "is not in PVE's task lists any more"
	return []row{
		{name: "no task", happens: func(f *facts) { f.Tasks = nil }, says: gone},
		{name: "only later tasks", happens: func(f *facts) { f.Tasks = nil; f.add("qmstart", theVM, me, "pve1", time.Minute) }, says: gone},
		{name: "tasks of another VM", happens: func(f *facts) { f.Tasks[0].ID = "4000" }, says: gone},
		{name: "made by another user", happens: func(f *facts) { f.Tasks[0].User = neighbor }, only: namesGuest, owner: ThirdParty,
			says: "of other@pve has made it"},
		{name: "cloned by another user", happens: func(f *facts) { f.Tasks[0].User = neighbor }, only: clones, says: gone},
		{name: "made by another token", happens: func(f *facts) { f.Tasks[0].User = "terraform@pve!cd" }, only: namesGuest,
			owner: ThirdParty, says: "of terraform@pve!cd has made it"},
		{name: "rolled back by us", happens: later("qmrollback", me), says: "its mark is of a qm"},
		{name: "a container by us", happens: later("vzcreate", me), says: "has made it what it is"},
		{name: "restored by another", happens: later("qmrestore", neighbor), owner: ThirdParty, says: "of other@pve has made it"},
		{name: "rolled back by another", happens: later("qmrollback", neighbor), owner: ThirdParty, says: "qmrollback"},
		{name: "made again by another", happens: later("qmcreate", neighbor), owner: ThirdParty, says: "of other@pve has made it"},
		{name: "destroyed by another", happens: later("qmdestroy", neighbor), owner: ThirdParty, says: "qmdestroy"},
		{name: "destroyed by us", happens: later("qmdestroy", me), says: "its mark is of a qm"},
		{name: "restored by us over it", happens: later("qmrestore", me), says: "has made it what it is",
			only: func(m making) bool { return m.by != "qmrestore" || m.known }},
		{name: "made by us over it", happens: later("qmcreate", me), says: "has made it what it is",
			only: func(m making) bool { return m.by != "qmcreate" || m.known }},
		{name: "names another task", happens: func(f *facts) { f.Mark.Task = "UPID:other" }, only: namesGuest, says: "its mark names task UPID:other"},
		{name: "names another clone", happens: func(f *facts) { f.Mark.Task = "UPID:other" }, only: clones, says: gone},
		{name: "the task failed", happens: func(f *facts) { f.Tasks[0].Well = false }, owner: Ours, only: knownTask},
		{name: "a clone failed", happens: func(f *facts) { f.Tasks[0].Well = false }, owner: Ours, whole: true, only: unknownTask},
		{name: "the task runs", happens: func(f *facts) { f.Tasks[0].Well, f.Tasks[0].Running = false, true }, owner: Ours, only: knownTask},
		{name: "a clone runs", happens: func(f *facts) { f.Tasks[0].Well, f.Tasks[0].Running = false, true }, owner: Ours, whole: true,
			only: unknownTask},
		{name: "another clone of ours since", happens: func(f *facts) { f.add("qmclone", source, me, "pve2", time.Minute).Well = false },
			owner: Ours, whole: true},
		{name: "another clone of ours before", happens: func(f *facts) { f.add("qmclone", source, me, "pve1", time.Hour).Well = false },
			owner: Ours, whole: true},
		{name: "used before another clone of ours", happens: func(f *facts) {
			f.add("qmstart", theVM, neighbor, "pve1", 5*time.Minute)
			f.add("qmclone", source, me, "pve1", time.Minute)
		}, says: "other@pve has begun qmstart on it since", only: clones},
		{name: "used before another destroyed VM", happens: func(f *facts) {
			f.add("qmclone", source, me, "pve1", time.Hour)
			f.add("qmstart", theVM, neighbor, "pve1", 40*time.Minute)
			f.add("qmdestroy", theVM, neighbor, "pve1", 30*time.Minute)
		}, owner: Ours, whole: true, only: clones},
		{name: "another user's clone since", happens: func(f *facts) { f.add("qmclone", source, neighbor, "pve1", time.Minute) },
			owner: Ours, whole: true},
		{name: "a clone of another source", happens: func(f *facts) { f.add("qmclone", 9001, me, "pve1", time.Minute) },
			owner: Ours, whole: true},
		{name: "another VM was destroyed before", happens: func(f *facts) { f.add("qmdestroy", theVM, neighbor, "pve2", 11*time.Minute) },
			owner: Ours, whole: true},
		{name: "ours was destroyed before", happens: func(f *facts) { f.add("qmdestroy", theVM, me, "pve1", 11*time.Minute) },
			owner: Ours, whole: true},
	}
}

// ageRows are about time, and about what was done since.
func ageRows() []row {
	since := func(typ, user, node string, ago time.Duration) func(*facts) {
		return func(f *facts) { f.add(typ, theVM, user, node, ago) }
	}
	old := func(age time.Duration) func(*facts) {
		return func(f *facts) { f.Tasks[0].Start = f.Clocks["pve1"] - int64(age/time.Second) }
	}
	blind := func(node string, happens func(*facts)) func(*facts) {
		return func(f *facts) { happens(f); delete(f.Clocks, node) }
	}
	rows := []row{
		{name: "its node tells no time", happens: blind("pve1", func(*facts) {}), says: "node pve1 does not tell its time"},
		{name: "no node tells its time", happens: func(f *facts) { clear(f.Clocks) }, says: "does not tell its time"},
		{name: "no node tells its time, and its run asks", owner: Ours, whole: true,
			happens: func(f *facts) { clear(f.Clocks); f.Live = true }},
		{name: "an idle node tells no time", happens: blind("pve2", func(*facts) {}), owner: Ours, whole: true},
		{name: "another's task, when is not told", happens: blind("pve2", since("qmstart", neighbor, "pve2", time.Hour)),
			says: "other@pve has begun qmstart on it since"},
		{name: "our task, when is not told", happens: blind("pve2", since("qmstart", me, "pve2", time.Hour)), owner: Ours, whole: true},
		{name: "our destroy that failed, when is not told", owner: Ours, happens: blind("pve2", func(f *facts) {
			f.add("qmdestroy", theVM, me, "pve2", time.Hour).Well = false
		})},
		{name: "a day old", happens: old(MaxAge), owner: Ours, whole: true},
		{name: "older than a day", happens: old(MaxAge + time.Second), says: "it was made 24h0m0s ago"},
		{name: "older than a day, and its run asks", owner: Ours, whole: true,
			happens: func(f *facts) { old(MaxAge + time.Second)(f); f.Live = true }},
		{name: "from last week", happens: old(7 * 24 * time.Hour), says: "a mark counts for 24h"},
		{name: "its node's clock was set back", happens: old(-time.Hour), owner: Ours, whole: true},
		{name: "another VM's task", happens: func(f *facts) { f.add("qmstart", 4000, neighbor, "pve1", time.Minute) }, owner: Ours, whole: true},
		{name: "a backup of many", happens: func(f *facts) { f.add("vzdump", 0, neighbor, "pve1", time.Minute).ID = "" }, owner: Ours, whole: true},
		{name: "our destroy failed", happens: func(f *facts) { f.add("qmdestroy", theVM, me, "pve1", time.Minute).Well = false }, owner: Ours},
		{name: "our destroy runs", owner: Ours, happens: func(f *facts) {
			d := f.add("qmdestroy", theVM, me, "pve2", time.Minute)
			d.Well, d.Running = false, true
		}},
		{name: "our destroy failed, and it was started before", owner: Ours, happens: func(f *facts) {
			f.add("qmstart", theVM, me, "pve1", 2*time.Minute)
			f.add("qmdestroy", theVM, me, "pve1", time.Minute).Well = false
		}},
		{name: "our destroy failed, and it was started in that second", owner: Ours, happens: func(f *facts) {
			f.add("qmstart", theVM, me, "pve1", time.Minute)
			f.add("qmdestroy", theVM, me, "pve1", time.Minute).Well = false
		}},
		{name: "our destroy failed, and it was started since", says: "as no create does: a user may work with it", happens: func(f *facts) {
			f.add("qmdestroy", theVM, me, "pve2", 2*time.Minute).Well = false
			f.add("qmstart", theVM, me, "pve1", time.Minute)
		}},
		{name: "it was started between two destroys of ours", says: "as no create does: a user may work with it", happens: func(f *facts) {
			f.add("qmdestroy", theVM, me, "pve1", 3*time.Minute).Well = false
			f.add("qmstart", theVM, me, "pve1", 2*time.Minute)
			f.add("qmdestroy", theVM, me, "pve1", time.Minute).Well = false
		}},
		{name: "our destroy failed, and so did a start since", owner: Ours, happens: func(f *facts) {
			f.add("qmdestroy", theVM, me, "pve1", 2*time.Minute).Well = false
			f.add("qmstart", theVM, me, "pve1", time.Minute).Well = false
		}},
		{name: "our destroy failed before it was made, and it was started", owner: Ours, whole: true, happens: func(f *facts) {
			f.add("qmdestroy", theVM, me, "pve1", time.Hour).Well = false
			f.add("qmstart", theVM, me, "pve1", time.Minute)
		}},
		{name: "the task failed, and it was started", only: knownTask, says: "did not end well, and task UPID:", happens: func(f *facts) {
			f.Tasks[0].Well = false
			f.add("qmstart", theVM, me, "pve2", time.Minute)
		}},
		{name: "our destroy failed before", happens: func(f *facts) { f.add("qmdestroy", theVM, me, "pve2", time.Hour).Well = false },
			owner: Ours, whole: true},
		{name: "another's destroy failed", says: "other@pve has begun qmdestroy on it since",
			happens: func(f *facts) { f.add("qmdestroy", theVM, neighbor, "pve2", time.Minute).Well = false }},
	}
	for _, node := range []string{"pve1", "pve2"} {
		for _, typ := range []string{"qmstart", "qmconfig", "qmclone", "qmigrate", "resize", "qmtemplate", "hastart", "qmstop", "qmsnapshot"} {
			at := func(what string) string { return fmt.Sprintf("%s on %s, %s", typ, node, what) }
			rows = append(rows,
				row{name: at("by another since"), happens: since(typ, neighbor, node, 9*time.Minute), says: "other@pve has begun " + typ + " on it since"},
				row{name: at("by another token"), happens: since(typ, "terraform@pve!cd", node, time.Second), says: "terraform@pve!cd has begun " + typ},
				row{name: at("by another before"), happens: since(typ, neighbor, node, 11*time.Minute), owner: Ours, whole: true},
				row{name: at("by us before"), happens: since(typ, me, node, 11*time.Minute), owner: Ours, whole: true})
			byUs := row{name: at("by us"), happens: since(typ, me, node, time.Minute), owner: Ours, whole: true}
			rows = append(rows, byUs)
			if slices.Contains(uses, typ) {
				done := byUs.happens
				byUs.name, byUs.happens = at("by us, amid the run"), func(f *facts) { done(f); f.Live = true }
				byUs.owner, byUs.whole, byUs.says = Unknown, false, me+" has begun "+typ+" on it since"
				rows = append(rows, byUs)
			}
		}
		for _, typ := range bystanders {
			rows = append(rows, row{name: typ + " on " + node, happens: since(typ, neighbor, node, time.Minute), owner: Ours, whole: true})
		}
	}
	return rows
}

// TestOwnership: a guest is ours only if its mark, the signature and PVE's own record of its maker agree, and nothing
// shows that another user needs it. Which node's clock is ahead changes nothing, nor does the order of PVE's lists.
func TestOwnership(t *testing.T) {
	rows, judged := slices.Concat(markRows(), makerRows(), ageRows(), backupRows()), 0
	for _, c := range rows {
		for _, m := range makings() {
			if c.only != nil && !c.only(m) {
				continue
			}
			f := factsOf(m)
			if c.forged {
				f.Mark = f.Mark.Sign(theKey())
			}
			c.happens(f)
			if !c.forged {
				f.Mark = f.Mark.Sign(theKey())
			}
			judged++
			v := f.judged()
			if v.Owner != c.owner || v.Whole != c.whole || !strings.Contains(v.Reason, c.says) {
				t.Errorf("%s (%s): %+v, want owner %d, whole %t, %q", c.name, m, v, c.owner, c.whole, c.says)
			}
			if (v.Maker.UPID != "") != (v.Owner == Ours) {
				t.Errorf("%s (%s): owner %d, and the maker is %+v", c.name, m, v.Owner, v.Maker)
			}
			slices.Reverse(f.Tasks)
			if again := Judge(f.Guest); again.Owner != v.Owner || again.Whole != v.Whole {
				t.Errorf("%s (%s): %+v, and with PVE's lists in another order %+v", c.name, m, v, again)
			}
		}
	}
	t.Logf("%d rows, %d judgements", len(rows), judged)
	if len(rows) < 150 {
		t.Errorf("only %d rows", len(rows))
	}
}

// TestOwnershipNamesTheMaker: what runs is awaited, so the task must be the one that makes this very guest.
func TestOwnershipNamesTheMaker(t *testing.T) {
	for _, m := range makings() {
		f := factsOf(m)
		f.Tasks[0].Well, f.Tasks[0].Running = false, true
		f.Mark = f.Mark.Sign(theKey())
		f.add("qmstart", theVM, me, "pve1", time.Minute)
		if v := f.judged(); v.Maker.UPID != f.Tasks[0].UPID || !v.Maker.Running {
			t.Errorf("%s: %+v", m, v.Maker)
		}
	}
}

// TestOwnershipNamesTheWork: what may have made disks of the guest is the task that made it, and what this identity has
// begun on it since. Tasks on an earlier guest with the VMID do not count, nor what makes no disk. A start counts that
// did not fail.
func TestOwnershipNamesTheWork(t *testing.T) {
	for i, m := range append(makings(), makings()...) {
		f, starts := factsOf(m), i < len(makings())
		f.Mark = f.Mark.Sign(theKey())
		maker := f.Tasks[0].UPID
		f.add("qmconfig", theVM, me, "pve1", 30*time.Minute)
		f.add("qmstart", theVM, me, "pve1", 25*time.Minute)
		f.add("qmdestroy", theVM, me, "pve1", 20*time.Minute)
		f.add("qmstart", theVM, me, "pve1", 5*time.Minute).Well = starts
		f.add("qmconfig", theVM+1, me, "pve1", 4*time.Minute)
		want := []string{maker, f.add("qmmove", theVM, me, "pve2", 3*time.Minute).UPID, f.add("qmconfig", theVM, me, "pve1",
			2*time.Minute).UPID}
		if unknownTask(m) { // another guest was cloned since
			want[0] = f.add("qmclone", source, me, "pve1", time.Minute).UPID
		}
		if v := f.judged(); v.Owner != Ours || !slices.Equal(v.Work, want) || v.Started() != starts {
			t.Errorf("%s: %+v, want the work %v, started %t", m, v, want, starts)
		}
	}
}

// TestOwnershipAtTheSameTime: nodes tell whole seconds, so tasks of two nodes that began within two have no order. Either may be the later
// one: ours may have made a disk, and another's may be a use. On one node each second counts.
func TestOwnershipAtTheSameTime(t *testing.T) {
	for _, m := range makings() {
		if unknownTask(m) {
			continue // then all since an earlier guest counts
		}
		for _, c := range []struct {
			node   string
			before time.Duration
			counts bool
		}{{"pve1", 0, true}, {"pve1", time.Second, false}, {"pve2", time.Second, true}, {"pve2", 2 * time.Second, true}, {"pve2", 3 * time.Second, false}} {
			f := factsOf(m)
			f.Mark = f.Mark.Sign(theKey())
			own := f.add("qmconfig", theVM, me, c.node, 10*time.Minute+c.before).UPID
			if v := f.judged(); v.Owner != Ours || slices.Contains(v.Work, own) != c.counts {
				t.Errorf("%s, our task on %s %s before: %+v", m, c.node, c.before, v)
			}
			f.add("qmconfig", theVM, neighbor, c.node, 10*time.Minute+c.before)
			if v := f.judged(); (v.Owner == Unknown) != c.counts {
				t.Errorf("%s, another's task on %s %s before: %+v", m, c.node, c.before, v)
			}
		}
	}
}

// TestOwnershipOfAClonedSource: a source that was destroyed, made or restored since is another one.
func TestOwnershipOfAClonedSource(t *testing.T) {
	for typ, remade := range map[string]bool{"qmdestroy": true, "qmrestore": true, "qmcreate": true, "qmrollback": false,
		"qmtemplate": false, "qmclone": false, "vzdump": false} {
		for _, m := range makings() {
			f := factsOf(m)
			f.Mark = f.Mark.Sign(theKey())
			isClone := f.Mark.By == "qmclone"
			f.add("qmdestroy", source, neighbor, "pve1", 20*time.Hour) // before
			if v := f.judged(); v.Owner != Ours || v.Remade {
				t.Errorf("%s: %+v", m, v)
			}
			f.add(typ, source, neighbor, "pve1", time.Second)
			if v := f.judged(); v.Owner != Ours || v.Remade != (remade && isClone) {
				t.Errorf("%s, %s: %+v", m, typ, v)
			}
		}
	}
}

// TestOwnershipOfADeadClone: where it is not known which clone of the source made the guest, one whose worker died may
// be it, and the guest is not whole. So not one before it, or one that began when the guest was changed already. A
// guest that was started all the same is left alone.
func TestOwnershipOfADeadClone(t *testing.T) {
	for name, c := range map[string]struct {
		dies  func(f *facts) *Task
		owner Owner // where the mark does not name its task
		whole bool
	}{
		"its own, or a sibling's": {func(f *facts) *Task { return f.add("qmclone", source, me, "pve1", 11*time.Minute) }, Ours, false},
		"after it":                {func(f *facts) *Task { return f.add("qmclone", source, me, "pve1", 9*time.Minute) }, Ours, false},
		"of another source":       {func(f *facts) *Task { return f.add("qmclone", source+1, me, "pve1", 11*time.Minute) }, Ours, true},
		"by another user":         {func(f *facts) *Task { return f.add("qmclone", source, neighbor, "pve1", 11*time.Minute) }, Ours, true},
		"of an earlier guest": {func(f *facts) *Task {
			f.add("qmdestroy", theVM, me, "pve1", 15*time.Minute)
			return f.add("qmclone", source, me, "pve1", 20*time.Minute)
		}, Ours, true},
		"when it was changed": {func(f *facts) *Task {
			f.add("qmconfig", theVM, me, "pve1", 9*time.Minute)
			return f.add("qmclone", source, me, "pve1", 8*time.Minute)
		}, Ours, true},
		"and it was started": {func(f *facts) *Task {
			f.add("qmstart", theVM, me, "pve1", 5*time.Minute)
			return f.add("qmclone", source, me, "pve1", 11*time.Minute)
		}, Unknown, false},
	} {
		for _, m := range makings() {
			if !clones(m) {
				continue
			}
			f := factsOf(m)
			f.Mark = f.Mark.Sign(theKey())
			dead := c.dies(f)
			dead.Well, dead.Died = false, true
			owner, whole := c.owner, c.whole
			if m.known {
				owner, whole = Ours, true
			}
			if v := f.judged(); v.Owner != owner || v.Whole != whole {
				t.Errorf("%s (%s): %+v, want owner %d, whole %t", name, m, v, owner, whole)
			}
		}
	}
}

// TestOwnershipZeroVerdict: a verdict that was not made allows nothing.
func TestOwnershipZeroVerdict(t *testing.T) {
	if v := (Verdict{}); v.Owner != Unknown || v.Whole {
		t.Errorf("%+v", v)
	}
	if v := Judge(Guest{}); v.Owner == Ours {
		t.Errorf("of no facts: %+v", v)
	}
}

// TestOwnershipOfAFinishedGuest: a guest without a mark is named as one that a killed run may have left only if this
// identity's own task of that type has made it well, before this run began and in the last hour of its node's clock.
func TestOwnershipOfAFinishedGuest(t *testing.T) {
	const lived = 5 * time.Minute
	rows, may := 0, 0
	for _, m := range makings() {
		for _, r := range []struct {
			name    string
			happens func(*facts)
			want    bool
			only    func(making) bool
		}{
			{name: "made before", happens: func(*facts) {}, want: true},
			{name: "made beside this run", happens: func(f *facts) { f.Tasks[0].Start += 400 }},
			{name: "an hour old", happens: func(f *facts) { f.Tasks[0].Start = f.Clocks["pve1"] - 3600 }, want: true},
			{name: "older", happens: func(f *facts) { f.Tasks[0].Start = f.Clocks["pve1"] - 3601 }},
			{name: "of another user", happens: func(f *facts) { f.Tasks[0].User = neighbor }},
			{name: "of another token", happens: func(f *facts) { f.Tasks[0].User = "terraform@pve!cd" }},
			{name: "failed", happens: func(f *facts) { f.Tasks[0].Well = false }},
			{name: "still made", happens: func(f *facts) { f.Tasks[0].Well, f.Tasks[0].Running = false, true }},
			{name: "made in another way", happens: func(f *facts) { f.Mark.By = "qmother" }, only: namesGuest},
			{name: "rolled back since", happens: func(f *facts) { f.add("qmrollback", theVM, me, "pve2", time.Minute) }},
			{name: "made again by another", happens: func(f *facts) { f.add("qmcreate", theVM, neighbor, "pve2", time.Minute) }},
			{name: "the node tells no time", happens: func(f *facts) { delete(f.Clocks, "pve1") }},
			{name: "no task", happens: func(f *facts) { f.Tasks = nil }},
			{name: "another VM's task", happens: func(f *facts) { f.Tasks[0].ID = "4000" }},
		} {
			if r.only != nil && !r.only(m) {
				continue
			}
			f := factsOf(m)
			f.Marked = false
			r.happens(f)
			rows++
			if _, got := MayBeLost(f.Guest, lived); got != r.want {
				t.Errorf("%s, %s: %t", m, r.name, got)
			} else if got {
				may++
			}
		}
	}
	t.Logf("%d rows, %d may be lost", rows, may)
}

// TestTasksOfHAAreNoUse: HA starts the guest of a create by its own entry. Another task of root, a start without an
// entry, and one of another user are uses.
func TestTasksOfHAAreNoUse(t *testing.T) {
	for _, c := range []struct {
		typ, user string
		ha, used  bool
	}{{"qmstart", "root@pam", true, false}, {"qmigrate", "root@pam", true, false}, {"qmstart", "root@pam", false, true},
		{"qmstart", neighbor, true, true}, {"qmconfig", "root@pam", true, true}} {
		f := factsOf(making{by: "qmcreate"})
		f.add(c.typ, theVM, c.user, "pve1", time.Minute)
		f.Live, f.Genuine, f.HA = true, true, c.ha
		if v := Judge(f.Guest); (v.Owner != Ours) != c.used {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

// TestDestroyOfTheEarlierGuestIsNoUse: another identity's destroy of its VM 150 and this create, on two nodes, begin at the same time as far as
// their clocks tell. A destroy that did not end well has worked with the VM that is there.
func TestDestroyOfTheEarlierGuestIsNoUse(t *testing.T) {
	first := Task{UPID: "UPID:pve1:00000001:00000001:6B49D202:qmcreate:150:me@pve:", Type: "qmcreate", ID: "150", User: "me@pve",
		Node: "pve1", Start: 1002, Well: true}
	for _, well := range []bool{true, false} {
		gone := Task{UPID: "UPID:pve2:00000001:00000001:6B49D200:qmdestroy:150:other@pve:", Type: "qmdestroy", ID: "150",
			User: "other@pve", Node: "pve2", Start: 1000, Well: well}
		g := Guest{VMID: 150, Identity: "me@pve", Live: true, Tasks: []Task{first, gone},
			Clocks: map[string]int64{"pve1": 1600, "pve2": 1600}}
		if used := Uses(g, first); len(used) > 0 == well {
			t.Errorf("ended well %t: %v", well, used)
		}
	}
}
