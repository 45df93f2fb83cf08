package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// endpoint is one URL that the API is reached by: a node of the cluster.
type endpoint struct {
	url, origin, basePath string
}

// endpoints are all the ways to the cluster. Requests go one way until it fails, and then the next.
type endpoints struct {
	all []*endpoint

	mu      sync.Mutex
	at      int                  // the one that requests go to
	offline map[string]time.Time // nodes that two endpoints could not reach, and when that was
	proven  map[*endpoint]bool   // answered as a member of the cluster that is spoken to
	foreign error                // two of them are of different clusters: nothing more is sent
	members map[string]string    // the cluster's nodes and their fingerprints, nil before the first answer
	turn    Turn                 // held by who finds out about endpoints
}

func newEndpoints(all []*endpoint) *endpoints {
	return &endpoints{all: all, offline: map[string]time.Time{}, proven: map[*endpoint]bool{}, turn: NewTurn()}
}

// current is the endpoint that requests go to.
func (p *endpoints) current() *endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[p.at]
}

// after is the endpoint whose turn it is when one has failed.
func (p *endpoints) after(e *endpoint) *endpoint {
	return p.all[(slices.Index(p.all, e)+1)%len(p.all)]
}

// leave has requests go to another endpoint, unless another caller has done so already.
func (p *endpoints) leave(from, to *endpoint) (moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[p.at] != from || from == to {
		return false
	}
	p.at = slices.Index(p.all, to)
	return true
}

// isOffline tells whether two endpoints could not reach a node a short time ago: a third would not either.
func (p *endpoints) isOffline(node string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, ok := p.offline[node]
	return ok && now.Sub(since) < offlineLife
}

func (p *endpoints) noteOffline(node string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offline[node] = now
}

// state is whether an endpoint may be used, whether the cluster is known, and what forbids every request.
func (p *endpoints) state(e *endpoint) (proven, met bool, foreign error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proven[e], p.members != nil, p.foreign
}

const (
	// offlineLife is how long a node counts as not reachable by way of any endpoint.
	offlineLife = 10 * time.Second
	// probeTime is how long one of several endpoints may take to say what cluster it is of, while another serves.
	probeTime = 2 * time.Second
)

// meet finds the first endpoint that answers, and refuses endpoints of different clusters before anything is sent to
// either. One that does not answer now is asked when it is needed. The request lends its credentials; where they are
// refused, that answer is the request's.
func (c *Conn) meet(ctx context.Context, r *Request, next handler) (*response, error) {
	p := c.endpoints
	if err := p.turn.Take(ctx); err != nil {
		return nil, &sendError{err: err, isClosed: true}
	}
	defer p.turn.Give()
	if _, met, foreign := p.state(p.all[0]); met || foreign != nil {
		return nil, foreign
	}
	var failed []error
	e := p.current()
	for range p.all {
		resp, err := c.prove(ctx, r, e, next)
		if err == nil && resp == nil {
			p.leave(p.current(), e)
			return nil, c.proveOthers(ctx, r, e, next)
		}
		if err == nil || ctx.Err() != nil {
			return resp, err
		}
		failed = append(failed, err)
		e = p.after(e)
	}
	return nil, allFailed(failed)
}

// proveOthers asks the endpoints beside the one that serves, all at once and not for long.
func (c *Conn) proveOthers(ctx context.Context, r *Request, served *endpoint, next handler) error {
	brief, cancel := context.WithTimeoutCause(ctx, probeTime, noAnswerError{after: probeTime})
	defer cancel()
	var asked sync.WaitGroup
	for _, e := range c.endpoints.all {
		if e == served {
			continue
		}
		asked.Go(func() {
			resp, err := c.prove(brief, r, e, next)
			if resp != nil {
				err = fmt.Errorf("it refused the credentials that %s takes (%d %s)", served.url, resp.status, resp.reason)
			}
			if err != nil {
				c.log(ctx, "PVE endpoint is not used for now", map[string]string{"endpoint": e.url, "error": err.Error()})
			}
		})
	}
	asked.Wait()
	_, _, foreign := c.endpoints.state(served)
	return foreign
}

// prove asks an endpoint for the nodes of its cluster, which PVE tells any identity (pve-manager API2/Nodes.pm
// index), and compares them with those of the cluster that is spoken to. The response is a refusal of the
// credentials.
func (c *Conn) prove(ctx context.Context, r *Request, e *endpoint, next handler) (*response, error) {
	ask := &Request{Op: "list the nodes by way of " + e.url, Method: http.MethodGet, Path: "/nodes", header: r.header,
		at: e}
	resp, err := next(ctx, ask)
	if err != nil {
		return nil, err
	}
	if resp.status == http.StatusUnauthorized {
		return resp, nil
	}
	if failure := c.judge(ask, resp, nil); failure != nil {
		return nil, &sendError{err: failure}
	}
	var answer struct {
		Data []struct {
			Node        wire.String `json:"node"`
			Fingerprint wire.String `json:"ssl_fingerprint"`
		} `json:"data"`
	}
	if err := json.Unmarshal(resp.body, &answer); err != nil || len(answer.Data) == 0 {
		return nil, &sendError{err: errors.New("the answer of " + e.url + " is no list of PVE's nodes")}
	}
	members := map[string]string{}
	for _, n := range answer.Data {
		members[string(n.Node)] = string(n.Fingerprint)
	}
	return nil, c.endpoints.admit(e, members)
}

// admit takes an endpoint in whose cluster shares a node with that of the others, by name and certificate.
func (p *endpoints) admit(e *endpoint, members map[string]string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members == nil {
		p.members = members
	}
	if !haveCommonNode(p.members, members) {
		p.foreign = &fault.Error{Op: "use the endpoints " + p.all[p.at].url + " and " + e.url, Kind: fault.Invalid,
			Unsent: true,
			Message: fmt.Sprintf("they are of different clusters: by way of %s there are the nodes %s, and by way of %s %s. "+
				"Nothing more is sent to either; `endpoints` are to be nodes of one cluster",
				p.all[p.at].url, describeNodes(p.members), e.url, describeNodes(members))}
		return p.foreign
	}
	p.proven[e] = true
	return nil
}

// haveCommonNode: two clusters may both have a pve1, but not with the same certificate.
func haveCommonNode(a, b map[string]string) bool {
	for name, fingerprint := range a {
		other, ok := b[name]
		if ok && (fingerprint == other || fingerprint == "" || other == "") {
			return true
		}
	}
	return false
}

func describeNodes(members map[string]string) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if f := members[name]; len(f) > 11 {
			name += " (certificate " + f[:11] + "…)"
		}
		texts = append(texts, name)
	}
	return strings.Join(texts, ", ")
}
