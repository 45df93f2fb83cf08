# The node downloads the image and verifies it; its name on the storage has the beginning of the checksum in it.
resource "proxmox_image" "debian" {
  node    = "pve1"
  storage = "local" # with content type "import"
  url     = "https://cloud.debian.org/images/cloud/bookworm/20250814-2204/debian-12-genericcloud-amd64-20250814-2204.qcow2"
  # From SHA512SUMS beside the image. This one is of what "make sim" has in its place: write the published one here.
  checksum = "a13e960839f8478057ac50f4e64a22b50a82711ba7d0a8d5448c8b08b84cbd7c593a00ad065a6d67330cfc188ddedee054bc6a747359770fc2a7808b20e97aaa"
}

# A disk is made of it. The VM is made when the image is there.
resource "proxmox_vm" "web" {
  node = "pve1"
  name = "web-1"
  disks = {
    scsi0 = { storage = "local-zfs", size = "8G", import_from = proxmox_image.debian.volume }
  }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0" } }
  boot_order = ["scsi0"]

  # Another image and its VM are there before this VM and the old image go. In the block of the image it would not keep the VM.
  lifecycle { create_before_destroy = true }
}
