package file

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/printed"
)

// TestLawCommandsOfFiles: a file or a storage whose name a shell would take apart has no command.
func TestLawCommandsOfFiles(t *testing.T) {
	for name, plain := range map[string]bool{"disc.iso": true, "x;id>${PWD}PWNED;#.iso": false, "$(id).iso": false, "a b.iso": false, "'.iso": false} {
		left := (&transfer{spec: Spec{Storage: "local", Content: "iso", Name: name}}).left("it stays")
		if (left.Command != "") != plain || left.Command != "" && len(printed.Unsafe("`"+left.Command+"`")) > 0 {
			t.Errorf("%q: the command %q", name, left.Command)
		}
		if said := widening(name, []string{"iso", "import"}); len(printed.Commands(said)) > 0 != plain || len(printed.Unsafe(said)) > 0 {
			t.Errorf("%q: said %s", name, said)
		}
	}
}
