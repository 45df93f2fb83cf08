// Package storage proves the life of images, snippets, cloud-init ISOs, disks and the ways an image becomes a disk.
package storage
