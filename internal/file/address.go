package file

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// about is the answer of a node about an address.
type about struct {
	pve.URLMetadata
	absent string // why no file can come from there
}

// addressTime is how long a plan waits for the server of an address. libwww-perl waits for three minutes.
const addressTime = 10 * time.Second

// isAbsent matches the answers that show that a download fails: the server has no such file, or the name or the port
// leads to no server. Others show nothing: a server may refuse HEAD, want a signature for GET, or be busy.
var isAbsent = regexp.MustCompile(`(?s)^invalid server response: '((?:404|410) .*|` +
	`500 Can't connect to .*\((?:Connection refused|Name or service not known|Bad hostname)\).*)'`)

// ask has the node of a download ask for the head of its file, once for each node and address. Who cannot ask learns
// nothing.
func (f *Files) ask(ctx context.Context, spec Spec) (about, error) {
	ctx, cancel := context.WithTimeout(ctx, addressTime)
	defer cancel()
	head, err := f.api.Node(spec.Node).URLMetadata(ctx, spec.URL, spec.Insecure)
	answer := (*pve.Error)(nil)
	if errors.As(err, &answer) && answer.IsPVEs() {
		if m := isAbsent.FindStringSubmatch(answer.Message); m != nil {
			return about{absent: m[1]}, nil
		}
	}
	return about{URLMetadata: head}, nil //nolint:nilerr // who cannot ask learns nothing
}

func (s Spec) address() string { return s.Node + " " + s.URL }

// checkAddress reports an address that no file can come from. It is an error where an image is replaced: the old one
// and the VMs made of it are destroyed first. A new image that fails takes nothing with it, and another resource of the
// run may put its file there.
func (f *Files) checkAddress(ctx context.Context, spec Spec) (found, doubts []*guest.FieldError) {
	if spec.URL == "" {
		return nil, nil
	}
	head, err := f.heads.Get(ctx, f.clock, spec.address(), func(ctx context.Context) (about, error) {
		return f.ask(ctx, spec)
	})
	switch {
	case err != nil:
	case head.absent != "" && spec.Replaces:
		return []*guest.FieldError{{Path: "url", Summary: "Node " + spec.Node + " finds no file at the url",
			Detail: "Its server answers: " + head.absent + ". Nothing was changed. The image in state, and each VM that is " +
				"made of it, would be destroyed before the download fails. Correct url. If another resource of this run puts the " +
				"file there, apply that one first, with -target. If the server has the file and only denies it to a HEAD " +
				"request, give this block another name: for a new image this is a warning"}}, nil
	case head.absent != "":
		return nil, []*guest.FieldError{{Path: "url", Summary: "Node " + spec.Node + " finds no file at the url",
			Detail: "Its server answers: " + head.absent + ". The download will fail, unless another resource of this run " +
				"puts the file there, or the server only denies it to a HEAD request"}}
	case head.MediaType == "text/html":
		return nil, []*guest.FieldError{{Path: "url", Summary: "There is a web page at the url",
			Detail: "Its server gives the media type text/html. It may want a login, or the address may be that of the page " +
				"with the link to the file"}}
	}
	return nil, nil
}

// errNotAsked says that no plan has asked about an address.
var errNotAsked = errors.New("not asked")

// addressSize is the size of the file at an address, if checkAddress has just asked for it.
func (f *Files) addressSize(ctx context.Context, spec Spec) int64 {
	head, err := f.heads.Get(ctx, f.clock, spec.address(), func(context.Context) (about, error) {
		return about{}, errNotAsked
	})
	if err != nil {
		return 0
	}
	return head.Size
}
