package kit

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// Fate is what a plan does with an object of the server.
type Fate int

const (
	// Stays: the object is in state, and is neither destroyed nor replaced.
	Stays Fate = iota + 1
	// Goes: it is in state, and is destroyed, maybe to be replaced.
	Goes
	// Comes: it is made.
	Comes
)

// fates are the fates of objects in the plans of one session, by what tells an object from all others.
type fates struct {
	mu  sync.Mutex
	all map[string][]fated
}

type fated struct {
	fate  Fate
	thing string
}

// Meet notes what a plan does with an object, which is called thing in messages. It returns the names in earlier plans
// of the same walk that have the other fate for it. Terraform tells no provider the addresses, plans in any order, and
// configures the provider for each walk.
func Meet(s *Session, object, thing string, fate, other Fate) []string {
	return s.meet(object, fated{fate, thing}, other, false)
}

// Pair is Meet for objects that look alike: each belongs to one pair, so it returns one name, "" for none.
func Pair(s *Session, alike, thing string, fate, other Fate) string {
	return strings.Join(s.meet(alike, fated{fate, thing}, other, true), "")
}

// meet finds all that have the other fate or, for a pair, takes the first one away and notes nothing.
func (s *Session) meet(object string, is fated, other Fate, pairs bool) (others []string) {
	if s == nil {
		return nil
	}
	s.fates.mu.Lock()
	defer s.fates.mu.Unlock()
	all := s.fates.all[object]
	for i, f := range all {
		switch {
		case f.fate != other || slices.Contains(others, f.thing):
		case pairs:
			s.fates.all[object] = slices.Delete(all, i, i+1)
			return []string{f.thing}
		default:
			others = append(others, f.thing)
		}
	}
	if s.fates.all == nil {
		s.fates.all = map[string][]fated{}
	}
	s.fates.all[object] = append(all, is)
	return others
}

// RefuseSplit refuses the second of two plans that have one object in state under two addresses, where one of them
// destroys or replaces it and the other keeps it: a block or its key was renamed, with an import in the place of a
// moved block. The apply would destroy the object that the other address has.
func RefuseSplit(s *Session, object, was, is string, goes bool) diag.Diagnostics {
	fate, other, thing := Stays, Goes, is
	if goes {
		fate, other, thing = Goes, Stays, was
	}
	others := Meet(s, object, thing, fate, other)
	if len(others) == 0 {
		return nil
	}
	named := ""
	if others[0] != thing {
		named = fmt.Sprintf(" (%s there)", others[0])
	}
	does, elsewhere := "keeps it", "destroys or replaces it under another one"
	if goes {
		does, elsewhere = "destroys or replaces it", "keeps it under another one"
	}
	return diag.Diagnostics{diag.NewErrorDiagnostic(sentence(thing)+" is in state twice", fmt.Sprintf("This plan %s "+
		"under one address, and %s%s: the apply would destroy it for both. Nothing was changed. If only the block or its "+
		"key was renamed, write a block moved { from = OLD, to = NEW } in the place of the import. If the state has both "+
		"addresses, take one out of it with `terraform state rm ADDRESS`, which leaves the object alone. %s.",
		does, elsewhere, named, ToDestroyAll))}
}

// ToDestroyAll is the way out where a refusal of a plan is in the way of `terraform destroy`, which plans the
// configuration first.
const ToDestroyAll = "`terraform destroy -refresh=false` plans no configuration"

// sentence begins with a capital letter.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
