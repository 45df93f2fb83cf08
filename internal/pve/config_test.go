package pve

import (
	"strings"
	"testing"
)

func TestNewChecksTheConfiguration(t *testing.T) {
	good := Config{Endpoint: "https://pve:8006", APIToken: testToken}
	tests := map[string]struct {
		change func(*Config)
		want   string // part of the error, "" for none
	}{
		"good":                {func(*Config) {}, ""},
		"slash":               {func(c *Config) { c.Endpoint += "/" }, ""},
		"api path":            {func(c *Config) { c.Endpoint += "/api2/json/" }, ""},
		"no endpoint":         {func(c *Config) { c.Endpoint = "" }, "endpoint is not set"},
		"no scheme":           {func(c *Config) { c.Endpoint = "pve:8006" }, "is not a URL"},
		"host only":           {func(c *Config) { c.Endpoint = "pve" }, "is not a URL"},
		"plain http":          {func(c *Config) { c.Endpoint = "http://pve:8006" }, "must begin with https"},
		"no host":             {func(c *Config) { c.Endpoint = "https://:8006" }, "has no host name"},
		"query":               {func(c *Config) { c.Endpoint += "?a=b" }, "query"},
		"user info":           {func(c *Config) { c.Endpoint = "https://root:hunter22@pve:8006" }, "must not hold a user name"},
		"unparsable":          {func(c *Config) { c.Endpoint = "https://root:hunter22%zz@pve" }, "is not a URL"},
		"both":                {func(c *Config) { c.Username, c.Password = "root@pam", "hunter22" }, "not both"},
		"neither":             {func(c *Config) { c.APIToken = "" }, "no credentials"},
		"no password":         {func(c *Config) { c.APIToken, c.Username = "", "root@pam" }, "no password"},
		"no username":         {func(c *Config) { c.APIToken, c.Password = "", "hunter22" }, "no username"},
		"no realm":            {func(c *Config) { c.APIToken, c.Username, c.Password = "", "root", "hunter22" }, "user@realm"},
		"token without id":    {func(c *Config) { c.APIToken = "root@pam=hunter22" }, "user@realm!tokenid=uuid"},
		"token without realm": {func(c *Config) { c.APIToken = "root!tf=hunter22" }, "user@realm!tokenid=uuid"},
		"token header":        {func(c *Config) { c.APIToken = "PVEAPIToken=root@pam!tf=hunter22" }, "user@realm!tokenid=uuid"},
		"token space":         {func(c *Config) { c.APIToken = "root@pam!tf=hunter22 " }, "user@realm!tokenid=uuid"},
		"bad totp":            {func(c *Config) { c.APIToken, c.Username, c.Password, c.TOTPSecret = "", "root@pam", "x", "hunter22!" }, "not base32"},
		"bad ca":              {func(c *Config) { c.CACertificate = "hunter22" }, "no certificate in PEM"},
		"tls 1.1":             {func(c *Config) { c.MinTLS = "1.1" }, "neither 1.2 nor 1.3"},
		"tls 1.3":             {func(c *Config) { c.MinTLS = "1.3" }, ""},
		"negative":            {func(c *Config) { c.MaxInFlight = -1 }, "must not be negative"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := good
			tt.change(&cfg)
			c, err := New(cfg)
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want == "":
				if c.Endpoint() != "https://pve:8006" {
					t.Errorf("endpoint %q", c.Endpoint())
				}
			case err == nil || !strings.Contains(err.Error(), tt.want):
				t.Fatalf("got %v, want %q", err, tt.want)
			case strings.Contains(err.Error(), "hunter22"):
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	token := newClient(t, Config{Endpoint: "https://pve", APIToken: "root@pam!tf=6b0b5c1a"}).Identity()
	if token != (Identity{User: "root@pam!tf", IsToken: true}) || token.IsRootTicket() {
		t.Errorf("a token of root: %+v, root %v", token, token.IsRootTicket())
	}
	root := newClient(t, Config{Endpoint: "https://pve", Username: "root@pam", Password: "x"}).Identity()
	if !root.IsRootTicket() {
		t.Errorf("root with a password: %+v", root)
	}
	other := newClient(t, Config{Endpoint: "https://pve", Username: "root@pve", Password: "x"}).Identity()
	if other.IsRootTicket() {
		t.Errorf("root of another realm: %+v", other)
	}
}
