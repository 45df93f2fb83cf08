package adoption_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// nestedKeys are the keys inside { } of a configuration, those of groups too, without slots.
func nestedKeys(config string) []string {
	seen := map[string]bool{}
	depth := 0
	for _, m := range regexp.MustCompile(`"[^"]*"|[{}]|(\w+)\s*=\s*(\{?)`).FindAllStringSubmatch(config, -1) {
		switch {
		case m[0] == "{":
			depth++
		case m[0] == "}":
			depth--
		case m[1] != "":
			if depth > 1 && !regexp.MustCompile(`\d$`).MatchString(m[1]) {
				seen[m[1]] = true
			}
			depth += len(m[2])
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// unset are keys of the configurations that no state says to be set: their values are defaults there, or facts of the
// server, or the plan shows them as a change.
func unset(peer string) []string {
	all := []string{"create", "driver", "format", "full", "import_from", "macaddr", "node", "power_off", "purge", "rombar", "slot",
		"timeout", "update", "uuid", "version", "volume"}
	if peer == "telmate" {
		all = append(all, "replicate")
	}
	return all
}

// tried are the keys of the short sweep: some of a value, some of a group.
func tried() []string { return []string{"tag", "user", "discard", "addresses", "throttle"} }

// nested finds a key inside { }.
func nested(key string) *regexp.Regexp {
	return regexp.MustCompile(`((?:[{,]|\n  ) +` + key + `\s*=\s*)("[^"]*"|\[[^\]]*\]|[\w.+-]+|\{(?:[^{}]|\{[^{}]*\})*\})`)
}

// TestMoveStateWrongKey: a key inside { } that Terraform drops from a translated configuration is in a warning at the
// move, for each key that the configurations have; of a group it is what is in it. After the first apply there is no
// such warning.
func TestMoveStateWrongKey(t *testing.T) {
	t.Parallel()
	for _, peer := range rig.OtherProviders() {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			e := rig.ReadOtherProvider(t, peer)
			keys := nestedKeys(e.Config)
			if !share.IsWhole() {
				keys = slices.DeleteFunc(keys, func(key string) bool { return !slices.Contains(tried(), key) })
			}
			told, vms := 0, 0
			for _, key := range keys {
				n := warningsWithout(t, e, key)
				if n > 0 {
					told++
					vms += n
				} else if !slices.Contains(unset(peer), key) {
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
	e.Config = nested(key).ReplaceAllString(e.Config, "${1}null")
	s := e.Moved(t, e.World(t, pvesim.Options{}), rig.TokenNoSSH)
	pl, err := s.Plan(t.Context())
	if err != nil { // it is refused
		return 1
	}
	count := func() (n int) {
		for _, said := range s.Diagnostics() {
			if regexp.MustCompile(`, here [\w.]+\.` + key + `(\.[\w.]+)?\n`).MatchString(fmt.Sprint(said)) {
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

// TestAccMoveStateWrongKey misspells keys for a CLI, which drops them itself, and wants each named by the plan.
func TestAccMoveStateWrongKey(t *testing.T) {
	share.InWhole(t)
	rig.UseCLI(t)
	rig.WithoutEnvironment(t)
	dir := t.TempDir()
	rig.DevOverride(t, dir)
	for _, peer := range rig.OtherProviders() {
		e := rig.ReadOtherProvider(t, peer)
		w := e.World(t, pvesim.Options{RealNetwork: true, Clock: rig.NewFastClock()})
		config := e.Config
		for _, key := range tried() {
			config = regexp.MustCompile(`((?:[{,]|\n  ) +)`+key+`(\s*=)`).ReplaceAllString(config, "${1}"+key+"_misspelt${2}")
		}
		said := rig.NewWorkspace(t, w, rig.EveryProvider(t, dir), map[string]string{"main.tf": config, "provider.tf": sourceOf,
			"moved.tf":          rig.ReadFile(t, filepath.Join(e.Dir, "moved.tf")),
			"terraform.tfstate": rig.ReadFile(t, filepath.Join(e.Dir, "state.json"))}).Says(t, "plan")
		for _, key := range tried() {
			if strings.Contains(e.Config, key) && !regexp.MustCompile(`, here [\w.]+\.`+key+`(\.[\w.]+)?\n`).MatchString(said) {
				t.Errorf("%s: the plan does not tell of %s:\n%s", peer, key, said)
			}
		}
	}
}
