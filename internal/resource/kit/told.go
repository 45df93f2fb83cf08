package kit

import (
	"errors"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Identity is the provider for the reader of an error: its name on the server, where that is, and the causes that this
// run has told already. The zero value has no name, and tells every cause in full.
type Identity struct {
	Name     string // "terraform@pve!prov"
	Endpoint string // the URL that requests go to
	told     *told
}

// told remembers the first attempt that failed by a cause that all objects of a run share. Terraform shows an error for
// each object: one in full is enough.
type told struct {
	mu sync.Mutex
	by map[string]string // the thing of the first attempt, by cause
}

// before returns the thing of another attempt that failed by a cause; the first attempt is noted, and has none.
func (i Identity) before(cause, thing string) (first string, isKnown bool) {
	if i.told == nil || cause == "" {
		return "", false
	}
	i.told.mu.Lock()
	defer i.told.mu.Unlock()
	first, isKnown = i.told.by[cause]
	if !isKnown {
		i.told.by[cause] = thing
	}
	return first, isKnown && first != thing // Terraform plans the same object again
}

// shared returns a cause that is none of the object's own, and a few words for it; "" for any other error. Another
// message is another cause.
func shared(err error) (cause, words string) {
	var offline *guest.NodeOfflineError
	if errors.As(err, &offline) {
		return "offline node " + offline.Node, "node " + offline.Node + " is offline"
	}
	var answer *pve.Error
	if !errors.As(err, &answer) {
		return "", ""
	}
	parts := strings.Split(answer.Path, "/") // "", "nodes", "pve1", …
	switch isOfNode := len(parts) > 2 && parts[1] == "nodes"; {
	case LoginRefused(err):
		return "login", "the server refused the credentials"
	case Unreachable(err) && answer.Foreign:
		return "foreign: " + answer.Message, "something in front of PVE answered"
	case Unreachable(err):
		return "server: " + answer.Message, "no server answered"
	case answer.Kind == pve.Unavailable && isOfNode:
		return "node " + parts[2] + ": " + answer.Message, "node " + parts[2] + " does not answer"
	}
	return "", ""
}

// asFor is the short form of an error whose cause another attempt has told.
func (a Attempt) asFor(err error) (text string, isTold bool) {
	cause, words := shared(err)
	first, isTold := a.As.before(cause, a.Thing)
	return words + ", as for " + first, isTold
}
