package task

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUPIDParts(t *testing.T) {
	u, err := ParseUPID("UPID:pve1:00005720:00058E49:6B00505B:qmclone:100:root@pam!tf:")
	if err != nil {
		t.Fatal(err)
	}
	if u.Node() != "pve1" || u.Type() != "qmclone" || u.ID() != "100" || u.User() != "root@pam!tf" || !u.Start().Equal(time.Unix(1795182683, 0)) {
		t.Errorf("%s %s %s %s %s", u.Node(), u.Type(), u.ID(), u.User(), u.Start())
	}
	for upid, want := range map[UPID]string{
		u: "task qmclone of VM 100 on node pve1",
		"UPID:pve1:00005449:00057FF1:6B005037:imgdel:200@local-zfs:root@pam:": "task imgdel of 200@local-zfs on node pve1",
		"UPID:pve1:00005449:100057FF1:6B005037:startall::root@pam:":           "task startall on node pve1",
		"nonsense": `task "nonsense"`,
	} {
		if got := upid.Describe(); got != want {
			t.Errorf("%s: %q, want %q", upid, got, want)
		}
	}
}

func TestUPIDRefused(t *testing.T) {
	for _, s := range []string{
		"", "UPID", "UPID:xyz", "UPID:pve1:00005720:00058E49:6B00505B:qmclone:100:root@pam",
		"UPID:pve1:00005720:00058E49:6B00505B:qmclone:100:root@pam:x", "upid:pve1:00005720:00058E49:6B00505B:qmclone:100:root@pam:",
		"UPID::00005720:00058E49:6B00505B:qmclone:100:root@pam:", "UPID:pve1:0000572:00058E49:6B00505B:qmclone:100:root@pam:",
		"UPID:pve1:0000572G:00058E49:6B00505B:qmclone:100:root@pam:", "UPID:pve1:00005720:00058E49:6B00505B::100:root@pam:",
		"UPID:pve1:00005720:00058E49:6B00505B:qmclone:100::", "UPID:../x:00005720:00058E49:6B00505B:qmclone:100:root@pam:",
		"UPID:pve1:00005720:00058E49:6B00505B:qm clone:100:root@pam:",
	} {
		if u, err := ParseUPID(s); err == nil {
			t.Errorf("%q was taken as %q", s, u)
		}
	}
}

func TestUPIDProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.StringMatching(`[a-z][a-z0-9-]{0,20}`).Draw(t, "node")
		start := rapid.Uint32().Draw(t, "start")
		kind := rapid.SampledFrom([]string{"qmcreate", "qmclone", "imgdel", "resize"}).Draw(t, "type")
		id := rapid.StringMatching(`([1-9][0-9]{2,8}(@[a-z-]+)?)?`).Draw(t, "id")
		user := rapid.StringMatching(`[a-z]+@(pam|pve)(![a-z]+)?`).Draw(t, "user")
		text := fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", node, rapid.Uint32().Draw(t, "pid"), rapid.Uint64Max(1<<36-1).Draw(t, "pstart"), start, kind, id, user)
		u, err := ParseUPID(text)
		if err != nil {
			t.Fatal(err)
		}
		if string(u) != text || u.Node() != node || u.Type() != kind || u.ID() != id || u.User() != user || u.Start().Unix() != int64(start) {
			t.Fatalf("%s came apart wrongly", text)
		}
	})
}

// No text makes a UPID panic or lead its path elsewhere.
func FuzzUPID(f *testing.F) {
	f.Add("UPID:pve1:00005720:00058E49:6B00505B:qmclone:100:root@pam!tf:")
	f.Add("UPID:::::::::")
	f.Fuzz(func(t *testing.T, s string) {
		u := UPID(s)
		parsed, err := ParseUPID(s)
		if (err == nil) != u.Valid() || err == nil && parsed != u {
			t.Fatalf("%q: %v", s, err)
		}
		_ = u.Describe()
		_, _, _, _, _ = u.Node(), u.Type(), u.ID(), u.User(), u.Start()
		if u.Valid() && u.Node() == "" {
			t.Fatalf("%q is valid without a node", s)
		}
	})
}
