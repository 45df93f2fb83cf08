package transport

import "testing"

// TestSecretsOfURLs: the user and the password of a URL and the values that sign it are in no text, in whatever spelling;
// the rest of the URL is, and words that are secrets by chance stay in other texts.
func TestSecretsOfURLs(t *testing.T) {
	r := newRedactor(credentials{}, Config{})
	for _, address := range []string{
		"https://bob:p%40ss-word1@images.example.com/debian.img", "https://bob:test@host/test.img",
		"https://host/a.img?X-Amz-Credential=AKIA%2F2026&X-Amz-Signature=0a1b2c3d4e5f60718293&v=12",
		"https://host/a.img?sv=2024-11-04&sig=aB3%2Fx%3D&filename=debian-12-genericcloud.qcow2",
		"https://ghp_0123456789abcdef@host/a.img",
	} {
		r.learn(Params{"url": address})
	}
	for text, want := range map[string]string{
		"downloading https://bob:p%40ss-word1@images.example.com/debian.img to /var": "downloading https://(redacted)@images.example.com/debian.img to /var",
		"wget: p@ss-word1 or p%40ss-word1 was refused":                               "wget: (redacted) or (redacted) was refused",
		"url=https://bob:test@host/test.img":                                         "url=https://(redacted)@host/test.img",
		`{"url":"https:\/\/bob:test@host\/test.img?token=a\/b"}`:                     `{"url":"https:\/\/(redacted)@host\/test.img?token=(redacted)"}`,
		"a test of bob: test.img":                                                    "a test of bob: test.img",
		"https://host/a.img?X-Amz-Signature=0a1b2c3d4e5f60718293&v=12":               "https://host/a.img?X-Amz-Signature=(redacted)&v=12",
		"signed 0a1b2c3d4e5f60718293":                                                "signed (redacted)",
		"https://host/a.img?sig=aB3%2Fx%3D&v=12":                                     "https://host/a.img?sig=(redacted)&v=12",
		"local:iso/debian-12-genericcloud.qcow2":                                     "local:iso/debian-12-genericcloud.qcow2",
		"https://pve1:8006, root@pam":                                                "https://pve1:8006, root@pam",
		"https://[fe80::1]:8006/x?a=b":                                               "https://[fe80::1]:8006/x?a=b",
		"a URL that was never sent: http://me:pw@host":                               "a URL that was never sent: http://(redacted)@host",
		"a token as user: https://glpat-42:x-oauth-basic@host/a.img":                 "a token as user: https://(redacted)@host/a.img",
		"a token: ghp_0123456789abcdef, https://t0ken@host/a.img":                    "a token: (redacted), https://(redacted)@host/a.img",
		"'https://me:p'w12@host/a.img' failed":                                       "'https://(redacted)@host/a.img' failed",
		"'https://host/a.img' by root@pam":                                           "'https://host/a.img' by root@pam",
		"HTTPS://me:pw@host/a@b.img?":                                                "HTTPS://(redacted)@host/a@b.img?",
		"https://host/a.img?xsig=abc&sig=abc&&sig=d&v#sig=1":                         "https://host/a.img?xsig=abc&sig=(redacted)&&sig=(redacted)&v#sig=(redacted)",
		"https://host/a.img?0123456789abcdefgh":                                      "https://host/a.img?(redacted)",
		"https://host/a.img#access_token=abc&part=two":                               "https://host/a.img#access_token=(redacted)&part=two",
		"https://host/a.img#0123456789abcdefgh":                                      "https://host/a.img#(redacted)",
	} {
		if got := r.text(text); got != want {
			t.Errorf("%q\nbecame %q\nwant   %q", text, got, want)
		}
	}
	const plain = "https://cloud.example.com/trixie/debian-13.qcow2?v=20260801"
	if got := r.params(Params{"url": plain, "node": "a"}); got != "node=a url="+plain {
		t.Errorf("an ordinary address: %q", got)
	}
}
