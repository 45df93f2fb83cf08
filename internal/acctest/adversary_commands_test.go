package acctest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/stranger"
)

// A command, alone or with the node before or behind it.
const (
	quoted = "`((?:qm|pvesm|ha-manager|pvesh|zfs|grep|rm) [^`]+)`"
	listed = "as root on ([a-z0-9]+): ([^\n]+)"
	onNode = "(?: (?:as root )?on node ([a-z0-9]+))?"
)

// printed are the commands that the user is told to run as root, with the node if it is said.
var printed = regexp.MustCompile("(?:" + quoted + "|" + listed + ")" + onNode)

// harmless are commands that only show something, and patterns in which a word is to be put.
var harmless = regexp.MustCompile(`^(qm (status|config|list)|pvesm (list|status|path)|ha-manager (status|config)|pvenode task) ` +
	`|…|STORAGE|unusedN`)

// operators are what joins the commands of a line.
var operators = regexp.MustCompile(`\s*(&&|\|\||;)\s*`)

// commandsHurtNobody runs every command that was printed, as it stands. What came after the last look that would have shown it, with
// nothing but reads behind it, nobody can have considered.
func (a *aftermath) commandsHurtNobody(t *testing.T) {
	t.Helper()
	if d := a.decisive(); (d.Act == stranger.Attach || d.Act == stranger.AttachContainer) && lookedBefore(a.ops, d) {
		return
	}
	for _, m := range printed.FindAllStringSubmatch(a.said(), -1) {
		line, node := strings.TrimSpace(m[1]+m[3]), m[2]+m[4]
		if node == "" {
			node = "pve1"
			if g := a.left().guest; g != nil {
				node = g.Node
			}
		}
		before := a.b.w.Sim.Strangers()
		a.shell(t, node, line)
		a.sameStrangers(before, a.b.w.Sim.Strangers(), fmt.Sprintf("after the command %q on %s", line, node))
	}
}

// shell runs a line with its operators, which the simulated node has not.
func (a *aftermath) shell(t *testing.T, node, line string) {
	t.Helper()
	joins := operators.FindAllStringSubmatch(line, -1)
	ok := true
	for n, part := range operators.Split(line, -1) {
		if n > 0 && (joins[n-1][1] == "&&" && !ok || joins[n-1][1] == "||" && ok) {
			continue
		}
		words := strings.Fields(part)
		switch {
		case harmless.MatchString(part + " "):
			ok = true
		case words[0] == "grep":
			ok = a.grep(words[len(words)-2], words[len(words)-1])
		default:
			out, err := a.b.root.Run(t.Context(), node, words...)
			if ok = err == nil; !ok && strings.Contains(err.Error()+out, "command not found") {
				a.add("the command %q on %s is unknown: %v", part, node, err)
			}
		}
	}
}

// grep looks for a text in the configuration file of a guest, or in those of all.
func (a *aftermath) grep(text, path string) (found bool) {
	a.b.w.Change(func(w *state.World) {
		for _, g := range w.Guests {
			file := fmt.Sprintf("/etc/pve/nodes/%s/qemu-server/%d.conf", g.Node, g.VMID)
			if g.Type == "lxc" {
				file = strings.Replace(file, "qemu-server", "lxc", 1)
			}
			found = found || strings.HasPrefix(file, path) && strings.Contains(g.Text(), text)
		}
	})
	return found
}
