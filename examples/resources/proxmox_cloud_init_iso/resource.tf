# What the guest is to do when it boots for the first time. It is uploaded over the API: no SSH, no snippets.
resource "proxmox_cloud_init_iso" "web" {
  node    = "pve1"
  storage = "local" # with content type "iso"
  name    = "web-1"

  user_data = <<-EOT
    #cloud-config
    hostname: web-1
    packages: [nginx]
  EOT
}

# The disc stands in a drive of the VM, in the place of the cloud-init drive that PVE makes.
resource "proxmox_vm" "web" {
  node       = "pve1"
  name       = "web-1"
  cdroms     = { ide3 = { file = proxmox_cloud_init_iso.web.volume } }
  networks   = { net0 = { model = "virtio", bridge = "vmbr0" } }
  boot_order = ["net0"]
}
