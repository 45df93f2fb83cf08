package guest

import (
	"errors"
	"strings"
	"testing"
)

// TestIsHalfDestroyed: only the lock of a destroy without anything that proves whose it is.
func TestIsHalfDestroyed(t *testing.T) {
	for want, config := range map[bool]map[string]string{true: {"lock": "destroyed"}, false: {"lock": "destroyed", "smbios1": "uuid=a"}} {
		if IsHalfDestroyed(config) != want {
			t.Errorf("%v: %t", config, !want)
		}
	}
	ref := Ref{VMID: 100, Identity: Identity{UUID: "a"}}
	if err := Guard(ref, "pve1", map[string]string{"lock": "destroyed"}); err == nil || !strings.Contains(err.Error(), "half destroyed") {
		t.Errorf("guard says %v", err)
	}
}

func TestIdentityMatches(t *testing.T) {
	cases := []struct {
		name        string
		state, seen Identity
		want        bool
	}{
		{"same uuid", Identity{UUID: "a", CTime: "1"}, Identity{UUID: "a", CTime: "2"}, true},
		{"other uuid, same ctime (a clone of the same template)", Identity{UUID: "a", CTime: "1"}, Identity{UUID: "b", CTime: "1"}, false},
		{"no uuid, same ctime", Identity{CTime: "1"}, Identity{CTime: "1"}, true},
		{"no uuid, other ctime", Identity{CTime: "1"}, Identity{CTime: "2"}, false},
		{"uuid gone, same ctime", Identity{UUID: "a", CTime: "1"}, Identity{CTime: "1"}, true},
	}
	for _, c := range cases {
		if got := c.state.Matches(c.seen); got != c.want {
			t.Errorf("%s: got %t", c.name, got)
		}
	}
}

func TestGuard(t *testing.T) {
	config := map[string]string{"smbios1": "uuid=bbb", "meta": "creation-qemu=9.0,ctime=1"}
	ref := Ref{VMID: 100, Node: "pve1", Identity: Identity{UUID: "aaa"}}
	var other *IdentityError
	if err := Guard(ref, "pve1", config); !errors.As(err, &other) || !strings.Contains(err.Error(), "aaa") ||
		!strings.Contains(err.Error(), "bbb") {
		t.Errorf("another VM passed, or is not named: %v", err)
	}
	ref.NextUUID = "ccc"
	if err := Guard(ref, "pve1", config); !errors.As(err, &other) {
		t.Errorf("another VM passed: %v", err)
	}
	ref.NextUUID = "BBB" // waited for a restart
	if err := Guard(ref, "pve1", config); err != nil {
		t.Error(err)
	}
	ref.NextUUID, ref.Identity = "", Identity{UUID: "bbb"}
	if err := Guard(ref, "pve1", config); err != nil {
		t.Error(err)
	}
	ref.Identity = Identity{}
	if err := Guard(ref, "pve1", config); err != nil {
		t.Error(err)
	}
}

func TestIdentityProves(t *testing.T) {
	if (Identity{}).Proves(map[string]string{}) || (Identity{CTime: "1"}).Proves(map[string]string{"meta": "ctime=1"}) {
		t.Error("nothing, or the creation time, proves a VM")
	}
	if (Identity{UUID: "aaa"}).Matches(Identity{}) {
		t.Error("a VM without uuid and creation time is taken for one with a uuid")
	}
}
