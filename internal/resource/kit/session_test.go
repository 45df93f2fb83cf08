package kit

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for given, want := range map[string]time.Duration{"5m": 5 * time.Minute, "x": time.Hour, "-1s": time.Hour} {
		if got := Duration(&given, time.Hour); got != want {
			t.Errorf("%q is %s, want %s", given, got, want)
		}
	}
	if Duration(nil, time.Hour) != time.Hour {
		t.Error("nothing is not the default")
	}
}

func TestNoSession(t *testing.T) {
	var none *Session
	if none.Known() || none.Identity() != (Identity{}) || none.Close() != nil {
		t.Error("no session knows something")
	}
}
