package contention_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
)

// harmless are commands that only show something, and patterns in which a word is to be put.
var harmless = regexp.MustCompile(`^(qm (status|config|list)|pvesm (list|status|path)|ha-manager (status|config)|pvenode task) ` +
	`|…|STORAGE|unusedN`)

// conditional is a command behind a question to the operator: whether a task is at work, which an identity without Sys.Audit
// cannot see.
var conditional = regexp.MustCompile("If none is, `[^`]+`")

// operators are what joins the commands of a line, and quoted is a word in which they mean nothing.
var (
	operators = regexp.MustCompile(`\s*(&&|\|\||;)\s*`)
	quoted    = regexp.MustCompile(`'[^']*'`)
)

// commandsAreHarmless runs every printed command as it stands. It skips an attachment that came after the last read that would have
// shown it, with nothing but reads after it: the provider cannot have taken that into account.
func (a *inspection) commandsAreHarmless(t *testing.T) {
	t.Helper()
	if len(a.reports) == 0 {
	} else if d := a.decisive(); (d.Act == thirdparty.Attach || d.Act == thirdparty.AttachContainer) && lookedBefore(a.ops, d) {
		return
	}
	a.b.w.Sim.SetThirdParties(nil) // background actors that have not come so far
	said := conditional.ReplaceAllString(a.said(), "")
	for _, m := range engine.Printed.FindAllStringSubmatch(said, -1) {
		line, node := strings.TrimSpace(m[1]+m[3]), m[2]+m[4]
		if node == "" {
			node = "pve1"
			if g := a.left().guest; g != nil {
				node = g.Node
			}
		}
		before := a.b.w.Sim.ThirdParties()
		a.shell(t, node, line)
		a.sameThirdParties(before, a.b.w.Sim.ThirdParties(), fmt.Sprintf("after the command %q on %s", line, node))
	}
}

// shell runs a line with its operators, which the simulated node has not.
func (a *inspection) shell(t *testing.T, node, line string) {
	t.Helper()
	line = quoted.ReplaceAllStringFunc(line, func(word string) string { return strings.ReplaceAll(strings.Trim(word, "'"), ";", "\x00") })
	joins := operators.FindAllStringSubmatch(line, -1)
	ok := true
	for n, part := range operators.Split(line, -1) {
		if n > 0 && (joins[n-1][1] == "&&" && !ok || joins[n-1][1] == "||" && ok) {
			continue
		}
		words := strings.Fields(strings.ReplaceAll(part, "\x00", ";"))
		switch {
		case harmless.MatchString(part + " "):
			ok = true
		case part == "[ $? = 1 ]":
			ok = !ok // the command before is a grep, which has found nothing
		case words[0] == "grep":
			ok = a.grep(words[len(words)-2], words[len(words)-1])
		case len(words) == 3 && words[0] == "qm" && words[1] == "reboot": // likewise none of the simulated node: no disk is touched
			ok = true
		case len(words) == 5 && words[0] == "ha-manager" && words[1] == "set": // which the simulated node does not have
			a.b.w.Change(func(w *state.World) {
				entry := w.HA[words[2]]
				if ok = entry != nil; ok {
					entry.State = words[4]
				}
			})
		default:
			out, err := a.b.root.Run(t.Context(), node, words...)
			if ok = err == nil; !ok && strings.Contains(err.Error()+out, "command not found") {
				a.add("the command %q on %s is unknown: %v", part, node, err)
			}
		}
	}
}

// grep looks for a text in the configuration file of a guest, or in those of all.
func (a *inspection) grep(text, path string) (found bool) {
	a.b.w.Change(func(w *state.World) {
		for _, g := range w.Guests {
			file := fmt.Sprintf("/etc/pve/nodes/%s/qemu-server/%d.conf", g.Node, g.VMID)
			if g.Type == "lxc" {
				file = strings.Replace(file, "qemu-server", "lxc", 1)
			}
			listed := path == "/etc/pve/.vmlist" && text == strconv.Itoa(g.VMID)
			found = found || listed || strings.HasPrefix(file, path) && strings.Contains(g.Text(), text)
		}
	})
	return found
}
