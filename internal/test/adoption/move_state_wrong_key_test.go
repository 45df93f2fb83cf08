package adoption_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// nestedKeys are the keys inside { } of a configuration, without slots.
func nestedKeys(config string) []string {
	seen := map[string]bool{}
	depth := 0
	for _, m := range regexp.MustCompile(`"[^"]*"|[{}]|(\w+)\s*=\s*(\{?)`).FindAllStringSubmatch(config, -1) {
		switch {
		case m[0] == "{":
			depth++
		case m[0] == "}":
			depth--
		case m[2] != "":
			depth++
		case depth > 1 && m[1] != "" && !regexp.MustCompile(`\d$`).MatchString(m[1]):
			seen[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// unset are keys of the configurations that no state says to be set: their values are defaults there, or facts of the
// server, or the plan shows them as a change.
func unset() []string {
	return []string{"create", "driver", "format", "full", "import_from", "macaddr", "node", "power_off", "purge", "rombar", "slot",
		"timeout", "update", "uuid", "version", "volume"}
}

// TestMoveStateWrongKey: a key inside { } that Terraform drops from a translated configuration is in a warning at the
// move, for each key that the configurations have. After the first apply there is no such warning.
func TestMoveStateWrongKey(t *testing.T) {
	t.Parallel()
	for _, peer := range rig.OtherProviders() {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			e := rig.ReadOtherProvider(t, peer)
			keys := nestedKeys(e.Config)
			if os.Getenv("MOVE_ALL") == "" {
				keys = slices.DeleteFunc(keys, func(key string) bool { return !slices.Contains([]string{"tag", "user", "discard"}, key) })
			}
			told, vms := 0, 0
			for _, key := range keys {
				n := warningsWithout(t, e, key)
				if n > 0 {
					told++
					vms += n
				} else if !slices.Contains(unset(), key) {
					t.Errorf("%s: no warning tells of %s", peer, key)
				}
			}
			if told == 0 {
				t.Error("no key is told of")
			}
			t.Logf("%d of %d keys are told of, %d times", told, len(keys), vms)
		})
	}
}

// warningsWithout counts the VMs of which a plan says, with a key dropped, that the former configuration had it.
func warningsWithout(t *testing.T, e rig.OtherProvider, key string) int {
	t.Helper()
	e.Config = regexp.MustCompile(`((?:[{,]|\n  ) +)`+key+`(\s*=\s*)("[^"]*"|\[[^\]]*\]|[\w.+-]+)`).ReplaceAllString(e.Config, "${1}"+key+"${2}null")
	s := e.Moved(t, e.World(t, pvesim.Options{}), rig.TokenNoSSH)
	pl, err := s.Plan(t.Context())
	if err != nil { // it is refused
		return 1
	}
	count := func() (n int) {
		for _, said := range s.Diagnostics() {
			if regexp.MustCompile(`, here [\w.]+\.` + key + `\n`).MatchString(fmt.Sprint(said)) {
				n++
			}
		}
		return n
	}
	n := count()
	if n > 0 && pl.Empty() {
		rig.Must(t, s.Apply(t.Context(), pl))
		_, err := s.Plan(t.Context())
		rig.Must(t, err)
		if again := count(); again > 0 {
			t.Errorf("%s is told of again, %d times", key, again)
		}
	}
	return n
}
