// Package cloudinit encodes the cloud-init options that PVE wants in a form of their own: password hashes and SSH keys.
package cloudinit

import (
	"bytes"
	"crypto/sha512"
	"strings"
)

// The hash characters of crypt(3).
const cryptAlphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// cryptRounds is the default number of rounds of the scheme.
const cryptRounds = 5000

// CryptSHA512 hashes a password as crypt(3) does with "$6$" and the default number of rounds. PVE stores the cipassword
// of a create as it is given, so it must be hashed before. Of salt the first 16 characters count; they should be random
// and from ./0-9A-Za-z.
func CryptSHA512(password, salt string) string {
	salt = salt[:min(len(salt), 16)]
	return "$6$" + salt + "$" + cryptSHA512([]byte(password), []byte(salt), cryptRounds)
}

// cryptSHA512 follows Ulrich Drepper's "Unix crypt using SHA-256 and SHA-512", version 0.6; the numbers are its steps.
func cryptSHA512(password, salt []byte, rounds int) string {
	b := sha512.Sum512(bytes.Join([][]byte{password, salt, password}, nil)) // 4-8
	a := sha512.New()
	a.Write(password) // 1-3
	a.Write(salt)
	a.Write(stretch(b[:], len(password)))    // 9-10
	for n := len(password); n > 0; n >>= 1 { // 11
		if n&1 != 0 {
			a.Write(b[:])
		} else {
			a.Write(password)
		}
	}
	sum := a.Sum(nil) // 12
	dp := sha512.Sum512(bytes.Repeat(password, len(password)))
	p := stretch(dp[:], len(password)) // 13-16
	ds := sha512.Sum512(bytes.Repeat(salt, 16+int(sum[0])))
	s := stretch(ds[:], len(salt)) // 17-20
	for round := range rounds {    // 21
		c := sha512.New()
		c.Write(pick(round&1 != 0, p, sum))
		if round%3 != 0 {
			c.Write(s)
		}
		if round%7 != 0 {
			c.Write(p)
		}
		c.Write(pick(round&1 != 0, sum, p))
		sum = c.Sum(nil)
	}
	return cryptBase64(sum) // 22
}

// cryptBase64 prints the digest in the order of step 22: three bytes at a time, each group's places rotated by one.
func cryptBase64(sum []byte) string {
	var out strings.Builder
	group := func(a, b, c byte, n int) {
		w := uint(a)<<16 | uint(b)<<8 | uint(c)
		for range n {
			out.WriteByte(cryptAlphabet[w&63])
			w >>= 6
		}
	}
	i, j, k := 0, 21, 42
	for range 21 {
		group(sum[i], sum[j], sum[k], 4)
		i, j, k = j+1, k+1, i+1
	}
	group(0, 0, sum[63], 2)
	return out.String()
}

func stretch(block []byte, n int) []byte {
	return bytes.Repeat(block, n/len(block)+1)[:n]
}

func pick(first bool, a, b []byte) []byte {
	if first {
		return a
	}
	return b
}
