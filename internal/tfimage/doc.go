// Package tfimage is the resource proxmox_image: an ISO image, or an image that disks are made of, on a storage of a node.
package tfimage
