package rig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// Invoke plans an action and carries it out.
func Invoke(t *testing.T, s *terraformtest.Session, typ, config string, between func()) (progress string, err error) {
	told, err := s.Invoke(t.Context(), "action."+typ+".it", between, fmt.Sprintf("action %q \"it\" {\nconfig {\n%s\n}\n}\n", typ, config))
	return strings.Join(told, "\n"), err
}
