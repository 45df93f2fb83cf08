package file

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"
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

// ask has the node of a download ask for the head of its file, once for each node and address. One that cannot ask
// learns nothing.
//
// One of the three workers of pveproxy waits for the server meanwhile, for three minutes if that is silent, whether the
// provider waits or not (pve-manager Service/pveproxy.pm, API2/Nodes.pm query_url_metadata: not protected). So one
// question is asked at a time, and none after one that had no answer. The address stands in the access log of the node:
// one with a key in it is not asked for.
func (f *Files) ask(ctx context.Context, spec Spec) (about, error) {
	address, err := url.Parse(spec.URL)
	if err != nil || address.User != nil || address.RawQuery != "" {
		return about{}, nil
	}
	select {
	case f.asking <- struct{}{}:
		defer func() { <-f.asking }()
	case <-ctx.Done():
		return about{}, ctx.Err()
	}
	if f.isDeaf {
		return about{}, nil
	}
	limited, cancel := context.WithTimeout(ctx, addressTime)
	defer cancel()
	head, err := f.api.Node(spec.Node).URLMetadata(limited, spec.URL, spec.Insecure)
	answer := (*pve.Error)(nil)
	isPVEs := errors.As(err, &answer) && answer.IsPVEs()
	f.isDeaf = limited.Err() != nil || err != nil && (!isPVEs || answer.Status >= 595)
	if isPVEs {
		if m := isAbsent.FindStringSubmatch(answer.Message); m != nil {
			return about{absent: m[1]}, nil
		}
	}
	return about{URLMetadata: head}, nil
}

func (s Spec) address() string { return s.Node + " " + s.URL }

// checkAddress reports an address that no file can come from. It is an error where an image is replaced and the server
// says that it has no file: the VMs made of the old one are destroyed first. A new image that fails takes nothing with
// it. That the node finds no server is a warning: before pve-manager 8.3.6 it did not ask over the datacenter's proxy
// where the address is one of https, as the download does (93cbef38, API2/Nodes.pm).
func (f *Files) checkAddress(ctx context.Context, spec Spec) (found, doubts []*guest.FieldError) {
	if spec.URL == "" {
		return nil, nil
	}
	head, err := f.heads.Get(ctx, f.clock, spec.address(), func(ctx context.Context) (about, error) {
		return f.ask(ctx, spec)
	})
	switch {
	case err != nil:
	case head.absent != "" && spec.Replaces && !strings.HasPrefix(head.absent, "500 "):
		return []*guest.FieldError{{Path: "url", Summary: "Node " + spec.Node + " finds no file at the url",
			Detail: "Its server answers: " + head.absent + ". Nothing was changed. Each VM that is made of the image would be " +
				"destroyed before the download fails, unless its block has create_before_destroy = true. Correct url. If another " +
				"resource of this run puts the file there, apply that one first, with -target, or let url refer to a value of it " +
				"that is known after its apply. `terraform destroy -refresh=false` plans no configuration"}}, nil
	case head.absent != "":
		return nil, []*guest.FieldError{{Path: "url", Summary: "Node " + spec.Node + " finds no file at the url",
			Detail: "Its server answers: " + head.absent + ". The download will fail, unless another resource of this run " +
				"puts the file there, or the node finds it otherwise. Where an image is replaced, each VM that is made of it is " +
				"destroyed before that, unless its block has create_before_destroy = true"}}
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
