package acctest_test

import (
	"regexp"
	"strings"
)

// knownFault is a fault of the product that this test has found and that is not mended yet. A case that fails by it is counted and
// printed, and fails nothing; when every cell is played, one that is not met any more fails the test until it is taken out here.
type knownFault struct {
	name  string
	scene *regexp.Regexp
	deed  *regexp.Regexp
	wrong *regexp.Regexp // every line of what is wrong
}

func openFaults() []knownFault {
	fault := func(name, scene, deed, wrong string) knownFault {
		return knownFault{name, regexp.MustCompile(`^(?:` + scene + `)`), regexp.MustCompile(`^(?:` + deed + `)$`),
			regexp.MustCompile(wrong)}
	}
	const (
		taken   = `delete and (?:take|make)_id|restore_his|delete and take_id|unlock and delete`
		his     = `a stranger's \w+ .* (?:is gone|has changed)|something is new among a stranger's`
		creates = `create|full clone|linked clone|undo`
	)
	return []knownFault{
		fault("a stranger's VM is started or gets firewall rules after he took the id in a create", creates, taken, his),
		fault("an undo frees a volume that a stranger made under our id", creates, `plant|delete and plant`, his),
		fault("a command is printed for a VM that is being made", creates, `make_id.*|delete and make_id`, `after the command|broken`),
		fault("a create whose node is away for a while says that nothing is left", creates, `node_(?:crash|offline).*`, `is untrue|is left|is there, and`),
	}
}

// openFault is the known fault by which a case fails; "" if it does not fail, or by something new as well.
func openFault(scene, deed string, wrong []string) string {
	for _, f := range openFaults() {
		if len(wrong) == 0 || !f.scene.MatchString(scene) || !f.deed.MatchString(deed) {
			continue
		}
		known := true
		for _, text := range wrong {
			line, _, _ := strings.Cut(text, "\n")
			known = known && f.wrong.MatchString(line)
		}
		if known {
			return f.name
		}
	}
	return ""
}
