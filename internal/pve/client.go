package pve

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// Params are the values of one request by parameter name. Booleans are "1" and "0": PVE takes nothing else
// (pve-common JSONSchema.pm check_type).
type Params map[string]string

// Client talks to one PVE cluster through one of its nodes, or the next when that one fails. It is safe for concurrent use.
// Close it when done.
type Client struct {
	endpoints *endpoints
	agent     string
	timeout   time.Duration
	clock     Clock
	trace     TraceFunc
	creds     credentials
	redact    *redactor
	chance    func() float64 // in [0,1), spreads those who wait

	reads, writes *http.Transport
	chain         handler
	exchanges     handler // the chain's last links, for logins
	session       session

	offset     atomic.Pointer[time.Duration] // server clock minus ours
	waits      taskWaits
	shared     sharedResources
	changes    guestChanges
	version    sharedVersion
	privileges sharedPrivileges
	tags       sharedTagStyle
}

// New makes a Client and checks the configuration. It makes no request: a wrong password shows with the first call.
func New(cfg Config) (*Client, error) {
	ways, err := cfg.endpoints()
	if err != nil {
		return nil, err
	}
	creds, err := cfg.credentials()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	c := &Client{
		endpoints:  newEndpoints(ways),
		agent:      cfg.UserAgent,
		timeout:    cfg.RequestTimeout,
		clock:      cfg.Clock,
		trace:      cfg.Trace,
		creds:      creds,
		redact:     newRedactor(creds, cfg),
		chance:     rand.Float64,
		session:    session{turn: newTurn()},
		waits:      taskWaits{nodes: map[string]*nodeWaits{}, took: map[string]time.Duration{}},
		shared:     sharedResources{turn: newTurn()},
		changes:    guestChanges{of: map[int]uint64{}},
		version:    sharedVersion{turn: newTurn()},
		privileges: sharedPrivileges{turn: newTurn(), held: map[string]map[string]bool{}},
		tags:       sharedTagStyle{turn: newTurn()},
	}
	c.reads, c.writes = cfg.transports(tlsConfig)
	c.chain = c.newChain(cfg.MaxInFlight)
	return c, nil
}

// Endpoint is the URL that requests go to, without a trailing slash and without /api2/json.
func (c *Client) Endpoint() string { return c.endpoints.current().url }

// Identity is who this Client acts as.
func (c *Client) Identity() Identity { return c.creds.identity }

// ServerTime is the server's clock, from the Date header of its latest answer; the zero time before the first answer.
// It is never ahead of the real one and up to about a second behind, so it is safe as the start of a search.
func (c *Client) ServerTime() time.Time {
	offset := c.offset.Load()
	if offset == nil {
		return time.Time{}
	}
	return c.clock.Now().Add(*offset)
}

// Close lets go of idle connections. Requests still under way end on their own.
func (c *Client) Close() {
	c.reads.CloseIdleConnections()
	c.writes.CloseIdleConnections()
}
