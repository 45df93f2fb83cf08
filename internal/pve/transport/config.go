package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TraceFunc receives one line about every request. Secrets are taken out before it is called.
type TraceFunc func(ctx context.Context, msg string, fields map[string]string)

// Config says which server a Client talks to, as whom, and how patiently. Either APIToken or Username and Password.
type Config struct {
	// Endpoint is https://host:8006; a trailing "/" or "/api2/json" is accepted.
	Endpoint string
	// Endpoints are several nodes of one cluster instead, in the order in which they are tried: https://host:8006 each.
	Endpoints []string
	// APIToken is user@realm!id=uuid.
	APIToken string
	// Username is user@realm; it and Password are used to get a ticket, which is renewed before it expires.
	Username, Password string
	// TOTPSecret (base32, RFC 6238) answers the second-factor challenge; OTP is a one-time code instead, good for one
	// login.
	TOTPSecret, OTP string
	// CACertificate is PEM, trusted in addition to the system's authorities.
	CACertificate string
	// Insecure switches the verification of the server's certificate off.
	Insecure bool
	// MinTLS is "1.2" (default) or "1.3".
	MinTLS string
	// RequestTimeout bounds one request with its answer; default 60 s. PVE's own proxy gives up after 30 s.
	RequestTimeout time.Duration
	// MaxInFlight bounds the requests under way at once; default 16.
	MaxInFlight int
	// DialContext replaces the network in tests. With it no proxy from the environment is used.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// DialTLSContext replaces the network and its encryption in tests: the client trusts the connection as it is and
	// does no TLS handshake. With it no proxy from the environment is used.
	DialTLSContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Clock is nil for the real one.
	Clock Clock
	// Trace is nil for none.
	Trace TraceFunc
	// PlanOnly refuses every write: another identity applies.
	PlanOnly bool
	// UserAgent is sent with every request when not empty.
	UserAgent string
}

const (
	defaultRequestTimeout = 60 * time.Second
	defaultMaxInFlight    = 16
)

// Identity is who a Client acts as.
type Identity struct {
	// User is "user@realm", or "user@realm!tokenid" for an API token.
	User string
	// IsToken tells whether it is an API token.
	IsToken bool
	// PlanOnly tells that another identity applies what this one plans. So its own lack of privileges, of SSH and of
	// root's login is no reason to refuse a plan.
	PlanOnly bool
}

// IsRootTicket tells whether PVE treats this identity as root: only root@pam with a password is. A token of root@pam is
// not, since PVE compares the literal name (access-control RPCEnvironment.pm, qemu-server API2/Qemu.pm).
func (i Identity) IsRootTicket() bool { return i.User == "root@pam" && !i.IsToken }

// credentials is the checked form of what Config says about authentication.
type credentials struct {
	identity Identity
	token    string // whole token, empty for a ticket
	password string
	totp     []byte // decoded secret
	otp      string
}

// ConfigError says which field of a Config is wrong.
type ConfigError struct {
	Field string
	Err   error
}

func (c *ConfigError) Error() string { return c.Err.Error() }
func (c *ConfigError) Unwrap() error { return c.Err }

func wrongField(field, format string, args ...string) *ConfigError {
	for _, arg := range args {
		format = strings.Replace(format, "%q", strconv.Quote(arg), 1)
	}
	return &ConfigError{Field: field, Err: errors.New(format)}
}

func (cfg Config) credentials() (credentials, error) {
	hasToken, hasUser := cfg.APIToken != "", cfg.Username != "" || cfg.Password != ""
	switch {
	case hasToken && hasUser:
		return credentials{}, wrongField("Username", "set either an API token or a username and password, not both")
	case hasToken:
		return tokenCredentials(cfg.APIToken)
	case !hasUser:
		return credentials{}, errors.New("no credentials: set an API token (PROXMOX_VE_API_TOKEN), or a username and " +
			"password (PROXMOX_VE_USERNAME and PROXMOX_VE_PASSWORD)")
	case cfg.Username == "":
		return credentials{}, wrongField("Username", "a password is set but no username")
	case cfg.Password == "":
		return credentials{}, wrongField("Username", "a username is set but no password")
	}
	if !isUserID(cfg.Username) {
		return credentials{}, wrongField("Username", "the username is not of the form user@realm, for example root@pam")
	}
	c := credentials{identity: Identity{User: cfg.Username}, password: cfg.Password, otp: cfg.OTP}
	if cfg.TOTPSecret != "" {
		secret, err := decodeTOTPSecret(cfg.TOTPSecret)
		if err != nil {
			return credentials{}, &ConfigError{Field: "TOTPSecret", Err: err}
		}
		c.totp = secret
	}
	return c, nil
}

// tokenCredentials never repeats the token in its errors: a wrong one may still hold the right secret.
func tokenCredentials(token string) (credentials, error) {
	malformed := wrongField("APIToken", "the API token is not of the form user@realm!tokenid=uuid")
	name, secret, ok := strings.Cut(token, "=")
	user, id, ok2 := strings.Cut(name, "!")
	if !ok || !ok2 || id == "" || secret == "" || !isUserID(user) || strings.ContainsAny(token, " \t\r\n;,\"'") {
		return credentials{}, malformed
	}
	return credentials{identity: Identity{User: name, IsToken: true}, token: token}, nil
}

func isUserID(s string) bool {
	i := strings.LastIndex(s, "@")
	return i > 0 && i < len(s)-1 && !strings.ContainsAny(s, " \t\r\n!:/=")
}

// endpoints are the checked forms of the URLs.
func (cfg Config) endpoints() ([]*endpoint, error) {
	if len(cfg.Endpoints) == 0 {
		e, err := parseEndpoint("Endpoint", cfg.Endpoint)
		return []*endpoint{e}, err
	}
	if cfg.Endpoint != "" {
		return nil, wrongField("Endpoints", "set either an endpoint or endpoints, not both")
	}
	var all []*endpoint
	for _, text := range cfg.Endpoints {
		e, err := parseEndpoint("Endpoints", text)
		switch {
		case err != nil:
			return nil, err
		case e.basePath != "":
			return nil, wrongField("Endpoints", "an endpoint must not have a path where there are several")
		case slices.ContainsFunc(all, func(other *endpoint) bool { return other.url == e.url }):
			return nil, wrongField("Endpoints", "endpoint %q is there twice", text)
		}
		all = append(all, e)
	}
	return all, nil
}

// parseEndpoint gives an endpoint in its plain form: https://host:port, without a path's trailing slash. Its errors do
// not repeat it, since it may be anything: a token in the wrong place, a URL with a password.
func parseEndpoint(field, text string) (*endpoint, error) {
	if strings.TrimSpace(text) == "" {
		return nil, wrongField(field, "the endpoint is not set; it is a URL like https://pve.example.com:8006")
	}
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil || u.Host == "" && u.Scheme != "https" && u.Scheme != "http":
		return nil, wrongField(field, "the endpoint is not a URL like https://pve.example.com:8006")
	case u.User != nil:
		return nil, wrongField(field, "the endpoint must not hold a user name or a password")
	case u.Scheme != "https":
		return nil, wrongField(field, "the endpoint must begin with https://, credentials are never sent in the clear")
	case u.Hostname() == "":
		return nil, wrongField(field, "the endpoint has no host name")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, wrongField(field, "the endpoint must not have a query or a fragment")
	}
	u.Path = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/api2/json"), "/")
	u.RawPath, u.Host = "", strings.ToLower(u.Host)
	return &endpoint{url: u.String(), origin: u.Scheme + "://" + u.Host, basePath: u.Path}, nil
}

func (cfg *Config) setDefaults() error {
	if cfg.RequestTimeout < 0 || cfg.MaxInFlight < 0 {
		return fmt.Errorf("request timeout (%s) and requests in flight (%d) must not be negative", cfg.RequestTimeout,
			cfg.MaxInFlight)
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = defaultRequestTimeout
	}
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = defaultMaxInFlight
	}
	if cfg.Clock == nil {
		cfg.Clock = realClock{}
	}
	return nil
}

func (cfg Config) tlsConfig() (*tls.Config, error) {
	t := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: cfg.Insecure, //nolint:gosec // the user's choice; PVE's own certificate is self-signed
		ClientSessionCache: tls.NewLRUClientSessionCache(0),
	}
	switch cfg.MinTLS {
	case "", "1.2":
	case "1.3":
		t.MinVersion = tls.VersionTLS13
	default:
		return nil, wrongField("MinTLS", "minimum TLS version %q is neither 1.2 nor 1.3", cfg.MinTLS)
	}
	if cfg.CACertificate == "" {
		return t, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(cfg.CACertificate)) {
		if line := strings.TrimSpace(cfg.CACertificate); len(line) < 256 && !strings.Contains(line, "\n") &&
			strings.ContainsAny(line, "/\\.") {
			return nil, wrongField("CACertificate", "the CA certificate looks like the path of a file; give the file's "+
				"content: ca_certificate = file(\"PATH\"), or PROXMOX_VE_CA_CERTIFICATE=\"$(cat PATH)\"")
		}
		return nil, wrongField("CACertificate", "the CA certificate holds no certificate in PEM form")
	}
	t.RootCAs = pool
	return t, nil
}
